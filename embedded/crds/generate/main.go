// Command generate writes the custom resource definitions below ../builtin, run in the directory of package crds.
//
// Linkerd's own come from controller-gen: first from the Go types of internal/apis, then from the packages below
// schema, for the kinds whose schema is not that of their Go type; the latter overwrite the former. The Gateway API's
// come from the module that go.mod pins, without descriptions. All are compact JSON: the types and the module are where
// they are read, and each start decodes them.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

const (
	gatewayModule = "sigs.k8s.io/gateway-api"
	gatewayGroup  = "gateway.networking.k8s.io"
)

// labels are those of Linkerd's chart.
var labels = map[string]string{
	"helm.sh/chart":             "linkerd-crds-2.20.0",
	linkerd.ControlPlaneNSLabel: linkerd.DefaultControlPlaneNamespace,
}

// gatewayRoutes are the resources of the Gateway API that Linkerd reads.
var gatewayRoutes = []string{"grpcroutes", "httproutes", "tcproutes", "tlsroutes"}

func main() {
	if err := run("builtin"); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	temp, err := os.MkdirTemp("", "crds")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)

	for _, paths := range []string{"../../internal/apis/...", "./schema/..."} {
		if _, err := command("go", "tool", "-modfile=../../internal/tools/go.mod", "controller-gen",
			"crd:maxDescLen=0,allowDangerousTypes=true", "paths="+paths, "output:dir="+temp); err != nil {
			return err
		}
	}
	module, err := command("go", "list", "-m", "-f", "{{.Dir}}", gatewayModule)
	if err != nil {
		return err
	}
	for _, resource := range gatewayRoutes {
		name := gatewayGroup + "_" + resource + ".yaml"
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(module), "config/crd/experimental", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(temp, name), data, 0o600); err != nil {
			return err
		}
	}

	files, err := filepath.Glob(filepath.Join(temp, "*.yaml"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml") + ".json"
		crd, err := clean(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		data, err = json.Marshal(crd)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command and returns what it wrote.
func command(name string, args ...string) (string, error) {
	var stdout bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return stdout.String(), nil
}

// clean removes what the API server does not need from a definition.
func clean(data []byte) (map[string]any, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, err
	}
	delete(crd.Annotations, "controller-gen.kubebuilder.io/version")
	crd.Annotations["linkerd.io/created-by"] = "linkerd-lite"
	if crd.Spec.Group == gatewayGroup {
		crd.Annotations["helm.sh/resource-policy"] = "keep"
	}
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Subresources != nil && version.Subresources.Status == nil && version.Subresources.Scale == nil {
			version.Subresources = nil
		}
		strip(version.Schema.OpenAPIV3Schema)
	}
	return map[string]any{
		"apiVersion": crd.APIVersion,
		"kind":       crd.Kind,
		"metadata":   map[string]any{"name": crd.Name, "annotations": crd.Annotations, "labels": labels},
		"spec":       crd.Spec,
	}, nil
}

// strip removes the descriptions of a schema.
func strip(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		strip(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		strip(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		strip(schema.AdditionalProperties.Schema)
	}
}
