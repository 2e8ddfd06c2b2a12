package app

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// controlPlane describes the control plane as it is now.
func (i *instance) controlPlane(authority *identity.Service, hooks *webhook.Server) controlplane.Config {
	o := &i.options.core
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
		Issuer:          keyPair(authority.Issuer().PEM()),
		IssuerScheme:    i.options.identity.scheme,

		IssuanceLifetime:   i.options.identity.lifetime,
		ClockSkewAllowance: i.options.identity.clockSkew,

		Destination: i.address("destination"),
		Policy:      i.address("policy"),
		Identity:    i.address("identity"),
	}
	if hooks != nil {
		config.Webhooks = keyPair(hooks.KeyPair())
	}
	if i.options.has(partControllers) && i.options.has(partKubelet) {
		config.Replicas = 1
	}
	return config
}

func keyPair(cert, key []byte) *controlplane.KeyPair {
	return &controlplane.KeyPair{Certificate: string(cert), Key: string(key)}
}

// address is where a listener is, the zero value if there is none.
func (i *instance) address(name string) netip.AddrPort {
	l, ok := i.listeners[name]
	if !ok {
		return netip.AddrPort{}
	}
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// builtin are the definitions that this instance brings.
func (i *instance) builtin() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return crds.Builtin(i.options.gatewayAPI == "bundled")
}

// newSyncer builds the syncer of the directories, beside which there are the
// built-in definitions.
func (i *instance) newSyncer(client *rest.Config, builtin []*apiextensionsv1.CustomResourceDefinition, dirs []string) (*manifests.Syncer, error) {
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

		StatusOwners: i.options.statusOwners(),
	}
	if i.options.has(partWebhooks) {
		config.Check = i.checkManifest
	}
	return manifests.New(config), nil
}

// statusOwners are the kinds whose status is written by a part that runs. That
// of the others is the manifests' to say.
func (o *clusterOptions) statusOwners() map[schema.GroupKind]string {
	owners := manifests.DefaultStatusOwners()
	maps.DeleteFunc(owners, func(_ schema.GroupKind, owner string) bool {
		switch owner {
		case manifests.StatusByPolicyWriter:
			return !o.has(partCore) || !o.has(partStatus)
		case manifests.StatusByController, manifests.StatusByNamespaceController:
			return !o.has(partControllers)
		}
		return false
	})
	return owners
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
			return []manifests.Problem{{Field: result.Problem.Field, Message: result.Problem.String()}}
		}
		var problems []manifests.Problem
		for _, w := range result.Warnings {
			problems = append(problems, manifests.Problem{Field: w.Field, Message: w.String(), Warning: true})
		}
		return problems
	case admission.Knows(kind):
		// Where a manifest names no namespace, it is applied to this one.
		namespace := cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
		if problem := admission.Check(kind, namespace, data, i.policyChecks()); problem != nil {
			return []manifests.Problem{{Field: problem.Field, Message: problem.String()}}
		}
	}
	return nil
}
