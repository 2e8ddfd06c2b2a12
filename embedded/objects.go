package embedded

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/checks"
	"github.com/linkerd-lite/linkerd-lite/embedded/controlplane"
	"github.com/linkerd-lite/linkerd-lite/embedded/crds"
	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// protobufClient is a client for Kubernetes' own kinds.
func protobufClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}

// ownObjects describes the control plane as it is now.
func (c *Cluster) ownObjects(authority *identity.Service, hooks *webhook.Server) controlplane.Config {
	config := controlplane.Config{
		Settings:     c.config.ControlPlane.Settings,
		Version:      "stable-" + linkerd.Version,
		ProxyVersion: injector.DefaultProxyVersion,
		TrustAnchors: string(authority.Anchors().PEM),
		Issuer:       keyPair(authority.Issuer().PEM()),
		IssuerScheme: c.config.Identity.Scheme,

		IssuanceLifetime:   c.config.Identity.Lifetime,
		ClockSkewAllowance: c.config.Identity.ClockSkew,

		Destination: c.shownAddress("destination"),
		Policy:      c.shownAddress("policy"),
		Identity:    c.shownAddress("identity"),
	}
	if hooks != nil {
		config.Webhooks = keyPair(hooks.KeyPair())
	}
	if c.config.has(PartControllers) && c.config.has(PartKubelet) {
		config.Replicas = 1
	}
	return config
}

func keyPair(cert, key []byte) *controlplane.KeyPair {
	return &controlplane.KeyPair{Certificate: string(cert), Key: string(key)}
}

// shownAddress is where Services of the control plane lead to.
func (c *Cluster) shownAddress(name string) netip.AddrPort {
	if c.inside != nil {
		return c.inside.listeners[0].address(name)
	}
	return c.address(name)
}

func (c *Cluster) address(name string) netip.AddrPort { return c.listeners.address(name) }

// address is where a listener is, the zero value if there is none.
func (l listeners) address(name string) netip.AddrPort {
	listener, ok := l[name]
	if !ok {
		return netip.AddrPort{}
	}
	return listener.Addr().(*net.TCPAddr).AddrPort()
}

// builtin are the definitions that the cluster brings.
func (c *Config) builtin() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return crds.Builtin(c.GatewayAPI)
}

// newSyncer builds the syncer of the directories, beside which there are the
// built-in definitions.
func newSyncer(c *Config, client *rest.Config, builtin []*apiextensionsv1.CustomResourceDefinition, stateDir string) (*manifests.Syncer, error) {
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
	owned, err := c.ownership(allHooks())
	if err != nil {
		return nil, err
	}
	config := manifests.Config{
		Owned:      owned,
		Dirs:       c.Dirs,
		RESTConfig: client,
		StateDir:   stateDir,
		Sync:       !c.Ephemeral && !c.NoFsync,
		Base:       base,
		PruneEmpty: c.PruneEmpty,
		Patterns:   c.Exclude,
		Stdin:      c.Stdin,
		Out:        c.Out,
		Log:        c.Log.With("part", "manifests"),

		StatusOwners: c.statusOwners(),
	}
	if c.has(PartWebhooks) {
		// A directory can bring a Service later than its profile: what is there already is not asked.
		config.Check = checks.New(c.checks(nil)).Judge
	}
	return manifests.New(config), nil
}

// ownership says which objects this instance keeps itself. Those of the control
// plane and its webhook configurations describe what runs here: nothing else
// would be true. Others are the API server's in every cluster, and nothing brings
// them back. Nodes, default accounts, and the namespaces that there always are, take
// what a manifest has, as do the built-in definitions (manifests.Config.Base).
func (c *Config) ownership(hooks []webhook.Hook) (func(kind schema.GroupKind, namespace, name string) plan.Ownership, error) {
	controlPlane, err := controlplane.Owned(c.ControlPlane.ControlPlaneNamespace)
	if err != nil {
		return nil, err
	}
	nodes := c.Nodes
	if len(nodes) == 0 {
		nodes = []kubelet.Node{{Name: kubelet.DefaultNode}}
	}
	always := apiserver.Owned()
	return func(kind schema.GroupKind, namespace, name string) plan.Ownership {
		switch {
		case controlPlane(kind, namespace, name) || webhook.Owns(hooks, kind, name) || always(kind, namespace, name):
			return plan.Exclusive
		case kind == schema.GroupKind{Kind: "ServiceAccount"} && name == "default":
			return plan.Shared
		case kind == schema.GroupKind{Kind: "Node"} && slices.ContainsFunc(nodes, func(n kubelet.Node) bool { return n.Name == name }):
			return plan.Shared
		}
		return plan.Free
	}, nil
}

// servedInstead says where what a pod of the control plane would serve is served. Clients of
// Linkerd connect to such pods, unless they are given an address.
func servedInstead(controlPlane, namespace, pod string, addresses map[string]string) string {
	switch {
	case namespace != controlPlane:
		return ""
	case strings.HasPrefix(pod, "linkerd-destination-"):
		return fmt.Sprintf("linkerd-destination is answered for at %s, its policy API at %s: give one of them to --api-addr", addresses["destination"], addresses["policy"])
	case strings.HasPrefix(pod, "linkerd-identity-"):
		return fmt.Sprintf("linkerd-identity is answered for at %s", addresses["identity"])
	}
	return fmt.Sprintf("metrics of the whole control plane are at http://%s/metrics", addresses["admin"])
}

// statusOwners are the kinds whose status is written by a part that runs. That
// of the others is the manifests' to say.
func (c *Config) statusOwners() map[schema.GroupKind]string {
	owners := manifests.DefaultStatusOwners()
	maps.DeleteFunc(owners, func(_ schema.GroupKind, owner string) bool {
		switch owner {
		case manifests.StatusByPolicyWriter:
			return !c.has(PartControlPlane) || !c.has(PartStatus)
		case manifests.StatusByController, manifests.StatusByNamespaceController:
			return !c.has(PartControllers)
		}
		return false
	})
	return owners
}
