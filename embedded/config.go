package embedded

import (
	"cmp"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	policystatus "github.com/linkerd-lite/linkerd-lite/policy/status"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// ControlPlaneConfig is what the control plane itself can be told, whatever API
// server it runs against.
type ControlPlaneConfig struct {
	Addresses Addresses
	// Settings are those of the mesh; a TrustDomain of "" is the ClusterDomain.
	linkerd.Settings
	// RequireClientCertificates refuses clients without one on the destination
	// and policy ports.
	RequireClientCertificates bool
	// PatchTimeoutMs is how long writing a status may take, in milliseconds.
	PatchTimeoutMs   uint32
	PolicyDeployment string
	EnablePprof      bool
}

// DefaultControlPlane has the values of Linkerd's chart, except for the trust
// domain, which is the cluster domain unless another is given.
func DefaultControlPlane() ControlPlaneConfig {
	settings := linkerd.DefaultSettings()
	settings.TrustDomain = ""
	return ControlPlaneConfig{
		Addresses:        DefaultAddresses(),
		Settings:         settings,
		PatchTimeoutMs:   uint32(policystatus.DefaultPatchTimeout.Milliseconds()),
		PolicyDeployment: policystatus.DefaultDeploymentName,
	}
}

// complete is c with what follows from its other values.
func (c ControlPlaneConfig) complete() ControlPlaneConfig {
	c.TrustDomain = cmp.Or(c.TrustDomain, c.ClusterDomain)
	return c
}

// IdentityConfig is what the certificate authority can be told.
type IdentityConfig struct {
	// IssuerDir and AnchorsFile are an issuer of the user's; both empty: one is made.
	IssuerDir, AnchorsFile string
	// Scheme says what the files in IssuerDir are called.
	Scheme              string
	Lifetime, ClockSkew time.Duration
}

// DefaultIdentity is an authority of its own.
func DefaultIdentity() IdentityConfig {
	return IdentityConfig{Scheme: string(identity.SchemeLinkerd), Lifetime: identity.DefaultLifetime, ClockSkew: identity.DefaultClockSkew}
}

// Parts that Config.Without leaves out.
const (
	PartControllers  = "controllers"
	PartGC           = "gc"
	PartKubelet      = "kubelet"
	PartInjector     = "injector"
	PartWebhooks     = "webhooks"
	PartStatus       = "status"
	PartControlPlane = "controlplane"
)

// OptionalParts are all that can be left out.
func OptionalParts() []string {
	return []string{PartControllers, PartGC, PartKubelet, PartInjector, PartWebhooks, PartStatus, PartControlPlane}
}

func (c *Config) has(part string) bool { return !slices.Contains(c.Without, part) }

// Config describes a cluster.
type Config struct {
	ControlPlane ControlPlaneConfig
	Identity     IdentityConfig
	// Dirs are the directories of manifests.
	Dirs []string
	// DataDir is where the data is kept; "" is a place of its own for Dirs.
	DataDir string
	// Ephemeral keeps the data in a temporary directory that is removed at the end.
	Ephemeral bool
	// Exclude are patterns, in the syntax of .gitignore, of what is no manifest in Dirs.
	Exclude []string
	// Stdin is read where Dirs has "-".
	Stdin io.Reader
	// PruneEmpty deletes what came from a directory, or a kustomization, that has no objects any more.
	PruneEmpty bool
	// NoFsync does not wait for the disk.
	NoFsync bool
	// Without are parts to leave out.
	Without []string
	// Inject injects proxies where nothing is said of it.
	Inject      bool
	ServiceCIDR string
	PodCIDRs    []netip.Prefix
	Nodes       []kubelet.Node
	// GatewayAPI brings the definitions of the Gateway API.
	GatewayAPI bool
	// EtcdServers are the URLs of an etcd to use instead of a built-in one.
	EtcdServers []string
	// Run has pods run what they say; nil: they stand in.
	Run *RunConfig
	// Settle waits until workloads are available before the cluster is ready.
	Settle bool

	// Version is that of the program, for what it writes of itself.
	Version string
	Log     *slog.Logger
	// Out gets what the user should read.
	Out io.Writer
	// OnReady is called when a part has become ready, one call at a time.
	OnReady func(lifecycle.Status)
	// OnSlow is called once for a part that takes long to become ready.
	OnSlow func(lifecycle.Status)

	// beforeView is view.Graph's Before, for tests.
	beforeView func(r *view.Reader, family, key string)
}

// Default ranges of addresses, one per family.
const (
	DefaultServiceCIDR = "10.96.0.0/12,fd00:10:96::/112"
	DefaultPodCIDR     = "10.244.0.0/16,fd00:10:244::/64"
)

// DefaultConfig is a cluster without manifests. The caller gives a log and an output.
func DefaultConfig() Config {
	return Config{
		ControlPlane: DefaultControlPlane(),
		Identity:     DefaultIdentity(),
		ServiceCIDR:  DefaultServiceCIDR,
		PodCIDRs:     defaultPodCIDRs(),
		GatewayAPI:   true,
	}
}

func defaultPodCIDRs() []netip.Prefix {
	var ranges []netip.Prefix
	for text := range strings.SplitSeq(DefaultPodCIDR, ",") {
		ranges = append(ranges, netip.MustParsePrefix(text))
	}
	return ranges
}
