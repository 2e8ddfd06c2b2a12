package app

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/policy"
	policystatus "github.com/linkerd-lite/linkerd-lite/policy/status"
)

// coreOptions are the flags of the control plane itself, whatever API server
// it runs against. The defaults are those of Linkerd's chart.
type coreOptions struct {
	addresses             addressOptions
	controlPlaneNamespace string
	clusterDomain         string
	trustDomain           string
	defaultOpaquePorts    string
	clusterNetworks       string
	probeNetworks         string
	defaultPolicy         string
	egressNamespace       string
	outboundTransportMode string
	enableH2Upgrade       bool
	enableEndpointSlices  bool
	enableIPv6            bool
	zoneWeights           bool
	allowL5dHeaders       bool
	meshedHTTP2Params     string
	strictProfiles        bool
	patchTimeoutMs        uint32
	policyDeployment      string
	enablePprof           bool
	linkerd               linkerdFlags
}

// Values of --outbound-transport-mode.
const (
	transportHeader      = "transport-header"
	transportTransparent = "transparent"
)

func (o *coreOptions) addFlags(flags *pflag.FlagSet) {
	o.addresses.addFlags(flags)
	flags.StringVar(&o.controlPlaneNamespace, "controller-namespace", linkerd.DefaultControlPlaneNamespace, "namespace of the control plane")
	flags.StringVar(&o.clusterDomain, "cluster-domain", linkerd.DefaultClusterDomain, "DNS domain of the cluster")
	flags.StringVar(&o.trustDomain, "identity-trust-domain", "", "domain of TLS identities (default: the cluster domain)")
	flags.StringVar(&o.defaultOpaquePorts, "default-opaque-ports", linkerd.DefaultOpaquePorts, "ports handled as bytes unless something else is said")
	flags.StringVar(&o.clusterNetworks, "cluster-networks", linkerd.DefaultClusterNetworks, "networks of the cluster, comma-separated")
	flags.StringVar(&o.probeNetworks, "probe-networks", linkerd.DefaultProbeNetworks, "networks from which kubelets probe, comma-separated")
	flags.StringVar(&o.defaultPolicy, "default-policy", linkerd.DefaultInboundPolicy, "inbound policy where none is configured")
	flags.StringVar(&o.egressNamespace, "global-egress-network-namespace", linkerd.DefaultEgressNamespace, "namespace whose EgressNetworks are for all")
	flags.StringVar(&o.outboundTransportMode, "outbound-transport-mode", transportHeader, "how meshed endpoints are reached: transport-header or transparent")
	flags.BoolVar(&o.enableH2Upgrade, "enable-h2-upgrade", true, "let proxies upgrade HTTP/1 to HTTP/2 between them")
	flags.BoolVar(&o.enableEndpointSlices, "enable-endpoint-slices", true, "read EndpointSlices rather than Endpoints")
	flags.BoolVar(&o.enableIPv6, "enable-ipv6", false, "prefer IPv6 addresses of dual-stack services")
	flags.BoolVar(&o.zoneWeights, "ext-endpoint-zone-weights", false, "weigh endpoints by the client's zone")
	flags.BoolVar(&o.allowL5dHeaders, "allow-l5d-request-headers", false, "let requests set timeouts and retries by l5d-* headers")
	flags.StringVar(&o.meshedHTTP2Params, "meshed-http2-client-params", linkerd.DefaultMeshedHTTP2Params, "HTTP/2 parameters for clients of meshed endpoints, as JSON")
	flags.BoolVar(&o.strictProfiles, "strict-profiles", false, "refuse profiles of missing services, and send empty ones for undefined ports, as Linkerd does after 2.20")
	flags.Uint32Var(&o.patchTimeoutMs, "patch-timeout-ms", uint32(policystatus.DefaultPatchTimeout.Milliseconds()), "how long writing a status may take, in milliseconds")
	flags.StringVar(&o.policyDeployment, "policy-deployment-name", policystatus.DefaultDeploymentName, "Deployment that owns the Lease of whoever writes status")
	flags.BoolVar(&o.enablePprof, "enable-pprof", false, "serve /debug/pprof on the admin address")
	o.linkerd.addFlags(flags)
}

func (o *coreOptions) complete() error {
	if err := o.linkerd.complete(); err != nil {
		return err
	}
	if o.enableIPv6 && !o.enableEndpointSlices {
		return errors.New("--enable-ipv6 and --enable-endpoint-slices=false exclude each other") // D148
	}
	if o.trustDomain == "" {
		o.trustDomain = o.clusterDomain
	}
	if o.outboundTransportMode != transportHeader && o.outboundTransportMode != transportTransparent {
		return fmt.Errorf("--outbound-transport-mode=%s: must be %s or %s", o.outboundTransportMode, transportHeader, transportTransparent)
	}
	for flag, value := range map[string]string{"cluster-networks": o.clusterNetworks, "probe-networks": o.probeNetworks} {
		if _, err := parsePrefixes(flag, value); err != nil {
			return err
		}
	}
	return nil
}

// parsePrefixes reads the ranges of a flag, without their host bits.
func parsePrefixes(flag, value string) ([]netip.Prefix, error) {
	prefixes, err := policy.ParseNetworks(value)
	if err != nil {
		return nil, fmt.Errorf("--%s=%s: %w", flag, value, err)
	}
	for i, prefix := range prefixes {
		prefixes[i] = prefix.Masked()
	}
	return prefixes, nil
}

// parseRanges reads the ranges of a flag, where a single address is a mistake.
func parseRanges(flag, value string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for text := range strings.SplitSeq(value, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--%s=%s: %w", flag, value, err)
		}
		ranges = append(ranges, prefix.Masked())
	}
	return ranges, nil
}

// Parts that --without leaves out.
const (
	partControllers = "controllers"
	partGC          = "gc"
	partKubelet     = "kubelet"
	partInjector    = "injector"
	partWebhooks    = "webhooks"
	partStatus      = "status"
	partCore        = "core"
)

var optionalParts = []string{partControllers, partGC, partKubelet, partInjector, partWebhooks, partStatus, partCore}

// clusterOptions are the flags of the cluster that `up` makes.
type clusterOptions struct {
	core        coreOptions
	identity    identityOptions
	dirs        []string
	dataDir     string
	ephemeral   bool
	noFsync     bool
	without     []string
	inject      string
	serviceCIDR string
	podCIDR     string
	nodeFlags   []string
	gatewayAPI  string
	etcdServers []string
	// settle waits for workloads to become available before COMMAND runs.
	settle bool

	podCIDRs []netip.Prefix
	nodes    []kubelet.Node
}

func (o *clusterOptions) addFlags(flags *pflag.FlagSet) {
	o.core.addFlags(flags)
	o.identity.addFlags(flags)
	o.core.linkerd.addKubeconfig(flags)
	addDataDirFlag(flags, &o.dataDir)
	flags.BoolVar(&o.ephemeral, "ephemeral", false, "keep the data in a temporary directory that is removed at the end")
	flags.BoolVar(&o.noFsync, "unsafe-no-fsync", false, "do not wait for the disk: faster, but a crash of the machine may lose writes")
	flags.StringSliceVar(&o.without, "without", nil, "parts to leave out: "+strings.Join(optionalParts, ", "))
	flags.StringVar(&o.inject, "inject", "disabled", "proxy injection where linkerd.io/inject says nothing: enabled or disabled")
	flags.StringVar(&o.serviceCIDR, "service-cidr", "10.96.0.0/12,fd00:10:96::/112", "ranges of cluster IPs, one or one per family")
	flags.StringVar(&o.podCIDR, "pod-cidr", "10.244.0.0/16,fd00:10:244::/64", "ranges of pod IPs, one or one per family")
	flags.StringArrayVar(&o.nodeFlags, "node", nil, "a node, as NAME or NAME=ZONE; repeatable (default "+kubelet.DefaultNode+")")
	flags.StringVar(&o.gatewayAPI, "gateway-api", "bundled", "definitions of the Gateway API: bundled or none")
	flags.StringSliceVar(&o.etcdServers, "etcd-servers", nil, "URLs of an existing etcd to use instead of the built-in one")
}

func addDataDirFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "data-dir", "", "directory of the instance's data (default: one per DIR under $XDG_STATE_HOME/linkerd-lite)")
}

func (o *clusterOptions) has(part string) bool { return !slices.Contains(o.without, part) }

func (o *clusterOptions) complete() error {
	if err := o.core.complete(); err != nil {
		return err
	}
	if err := o.identity.complete(); err != nil {
		return err
	}
	for _, part := range o.without {
		if !slices.Contains(optionalParts, part) {
			return fmt.Errorf("--without=%s: must be one of %s", part, strings.Join(optionalParts, ", "))
		}
	}
	if o.inject != "enabled" && o.inject != "disabled" {
		return fmt.Errorf("--inject=%s: must be enabled or disabled", o.inject)
	}
	if o.gatewayAPI != "bundled" && o.gatewayAPI != "none" {
		return fmt.Errorf("--gateway-api=%s: must be bundled or none", o.gatewayAPI)
	}
	if o.ephemeral && o.dataDir != "" {
		return fmt.Errorf("--ephemeral and --data-dir exclude each other")
	}
	if _, err := parseRanges("service-cidr", o.serviceCIDR); err != nil {
		return err
	}
	var err error
	if o.podCIDRs, err = parseRanges("pod-cidr", o.podCIDR); err != nil {
		return err
	}
	for _, text := range o.nodeFlags {
		name, zone, _ := strings.Cut(text, "=")
		if name == "" {
			return fmt.Errorf("--node=%s: a node needs a name", text)
		}
		o.nodes = append(o.nodes, kubelet.Node{Name: name, Zone: zone})
	}
	return nil
}
