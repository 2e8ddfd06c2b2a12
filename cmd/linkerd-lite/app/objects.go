package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/controlplane"
	"github.com/linkerd-lite/linkerd-lite/embedded/crds"
	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/policy/admission"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/validator"
)

// protobufClient is a client for Kubernetes' own kinds.
func protobufClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// ensureObjects writes the objects by which tools recognise a control plane.
func (i *instance) ensureObjects(ctx context.Context, client *rest.Config, authority *identity.Service, hooks *webhook.Server) error {
	writer, err := dynamic.NewForConfig(client)
	if err != nil {
		return err
	}
	o := &i.options.core
	_, issuer := authority.Objects()
	config := controlplane.Config{
		Namespace:       o.controlPlaneNamespace,
		ClusterDomain:   o.clusterDomain,
		TrustDomain:     o.trustDomain,
		ClusterNetworks: o.clusterNetworks,
		OpaquePorts:     o.defaultOpaquePorts,
		InboundPolicy:   o.defaultPolicy,
		ProbeNetworks:   o.probeNetworks,
		EgressNamespace: o.egressNamespace,
		IPv6:            o.enableIPv6,
		Version:         "stable-" + linkerdVersion,
		ProxyVersion:    injector.DefaultProxyVersion,
		TrustAnchors:    string(authority.Anchors().PEM),
		Issuer:          &controlplane.KeyPair{Certificate: string(issuer.Data["crt.pem"]), Key: string(issuer.Data["key.pem"])},
	}
	if i.options.has(partControllers) && i.options.has(partKubelet) {
		config.Replicas = 1
	}
	if err := controlplane.Ensure(ctx, writer, config); err != nil {
		return fmt.Errorf("objects of the control plane: %w", err)
	}
	return nil
}

// newSyncer builds the syncer of the directories.
func (i *instance) newSyncer(client *rest.Config, dirs []string) (*manifests.Syncer, error) {
	builtin, err := crds.Builtin(i.options.gatewayAPI == "bundled")
	if err != nil {
		return nil, err
	}
	var base []manifests.Base
	for _, crd := range builtin {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, fmt.Errorf("built-in definition %s: %w", crd.Name, err)
		}
		u := &unstructured.Unstructured{Object: object}
		u.SetAPIVersion("apiextensions.k8s.io/v1")
		u.SetKind("CustomResourceDefinition")
		base = append(base, manifests.Base{Object: u, FieldManager: crds.FieldManager})
	}
	config := manifests.Config{
		Dirs:       dirs,
		RESTConfig: client,
		StateDir:   i.stateDir,
		Sync:       !i.options.ephemeral && !i.options.noFsync,
		Base:       base,
		Out:        i.out,
		Log:        i.log.With("part", "manifests"),
	}
	if i.options.has(partWebhooks) {
		config.Check = i.checkManifest
	}
	return manifests.New(config), nil
}

// checkManifest asks the same functions as the webhooks, so that a fault is
// reported with its file and line.
func (i *instance) checkManifest(object *unstructured.Unstructured) []manifests.Problem {
	kind := object.GroupVersionKind().GroupKind()
	data, err := object.MarshalJSON()
	if err != nil {
		return []manifests.Problem{{Message: err.Error()}}
	}
	switch {
	case kind.Group == "linkerd.io" && kind.Kind == "ServiceProfile":
		result := validator.Validate(data, i.profileChecks(nil))
		if result.Problem != nil {
			return []manifests.Problem{{Field: result.Problem.Field, Message: result.Problem.Message}}
		}
		var problems []manifests.Problem
		for _, w := range result.Warnings {
			problems = append(problems, manifests.Problem{Field: w.Field, Message: w.Message, Warning: true})
		}
		return problems
	case admission.Knows(kind):
		if problem := admission.Check(kind, object.GetNamespace(), data, i.policyChecks()); problem != nil {
			return []manifests.Problem{{Field: problem.Field, Message: problem.Message}}
		}
	}
	return nil
}
