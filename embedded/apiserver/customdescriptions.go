package apiserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// customKinds are the definitions of a moment, by name.
type customKinds []apiextensionsv1.CustomResourceDefinition

// served calls use for each version that is served.
func (c customKinds) served(use func(definition *apiextensionsv1.CustomResourceDefinition, version string) error) error {
	for i := range c {
		if !apihelpers.IsCRDConditionTrue(&c[i], apiextensionsv1.Established) {
			continue
		}
		for _, version := range c[i].Spec.Versions {
			if version.Served {
				if err := use(&c[i], version.Name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// groupVersions are the paths of the descriptions, with their ETags.
func (c customKinds) groupVersions() map[string]string {
	hashed := map[string][]byte{}
	_ = c.served(func(definition *apiextensionsv1.CustomResourceDefinition, version string) error {
		path := "apis/" + definition.Spec.Group + "/" + version
		hashed[path] = fmt.Appendf(hashed[path], "%s %s %s\n", definition.Name, definition.UID, definition.ResourceVersion)
		return nil
	})
	etags := map[string]string{}
	for path, content := range hashed {
		etags[path] = fmt.Sprintf("%X", sha256.Sum256(content))
	}
	return etags
}

// v3 describes the kinds of a path such as apis/policy.linkerd.io/v1beta3.
func (c customKinds) v3(path string) ([]byte, error) {
	var specs []*spec3.OpenAPI
	err := c.served(func(definition *apiextensionsv1.CustomResourceDefinition, version string) error {
		if "apis/"+definition.Spec.Group+"/"+version != path {
			return nil
		}
		one, err := builder.BuildOpenAPIV3(definition, version, builder.Options{IncludeSelectableFields: true})
		specs = append(specs, one)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", path, err)
	}
	merged, err := builder.MergeSpecsV3(specs...)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", path, err)
	}
	return json.Marshal(merged)
}

// v2 are the members that all kinds add to the paths and to the definitions of
// the description of version 2, each an object in JSON.
func (c customKinds) v2() (paths, definitions []byte, err error) {
	allPaths, allDefinitions := map[string]spec.PathItem{}, spec.Definitions{}
	err = c.served(func(definition *apiextensionsv1.CustomResourceDefinition, version string) error {
		one, err := builder.BuildOpenAPIV2(definition, version, builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			return fmt.Errorf("describe %s: %w", definition.Name, err)
		}
		for path, item := range one.Paths.Paths {
			allPaths[path] = item
		}
		// The others are of built-in types, and there already.
		own := definitionPrefix(definition.Spec.Group) + version + "."
		for name, schema := range handler.PruneDefaults(one.Definitions) {
			if strings.HasPrefix(name, own) {
				allDefinitions[name] = schema
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if paths, err = json.Marshal(allPaths); err != nil {
		return nil, nil, err
	}
	definitions, err = json.Marshal(allDefinitions)
	return paths, definitions, err
}

// definitionPrefix is how the names of definitions of a group begin.
func definitionPrefix(group string) string {
	parts := strings.Split(group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "."
}

// v2Message is what v2 adds to the description in protobuf: messages that are
// written one after the other are merged.
func v2Message(paths, definitions []byte) ([]byte, error) {
	document, err := openapiv2.ParseDocument(slices.Concat([]byte(`{"swagger":"2.0","info":{"title":"","version":""},"paths":`), paths, []byte(`,"definitions":`), definitions, []byte("}")))
	if err != nil {
		return nil, fmt.Errorf("describe custom resources in protobuf: %w", err)
	}
	document.Swagger, document.Info = "", nil
	return proto.Marshal(document)
}

// members are those of an object in JSON, with a comma behind if there are any.
func members(object []byte) []byte {
	inner := bytes.TrimSuffix(bytes.TrimPrefix(object, []byte("{")), []byte("}"))
	if len(inner) == 0 {
		return nil
	}
	return append(slices.Clone(inner), ',')
}
