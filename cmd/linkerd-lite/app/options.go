package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// controlPlaneFlags are the flags of the control plane itself, whatever API
// server it runs against. The defaults are those of Linkerd's chart.
type controlPlaneFlags struct {
	embedded.ControlPlaneConfig
	addresses map[string]*string
	linkerd   linkerdFlags
}

func newControlPlaneFlags() controlPlaneFlags {
	return controlPlaneFlags{ControlPlaneConfig: embedded.DefaultControlPlane()}
}

func (o *controlPlaneFlags) addFlags(groups *cliflag.NamedFlagSets, listeners ...string) {
	flags := groups.FlagSet("address")
	o.addresses = map[string]*string{}
	for _, spec := range embedded.ListenerSpecs() {
		if slices.Contains(listeners, spec.Name) {
			o.addresses[spec.Name] = flags.String(spec.Name+"-addr", spec.Address, spec.Usage)
		}
	}
	flags.BoolVar(&o.Addresses.Random, "random-ports", false, "listen on free ports everywhere, for parallel runs")
	flags = groups.FlagSet("control plane")
	flags.StringVar(&o.ControlPlaneNamespace, "controller-namespace", o.ControlPlaneNamespace, "namespace of the control plane")
	flags.StringVar(&o.ClusterDomain, "cluster-domain", o.ClusterDomain, "DNS domain of the cluster")
	flags.StringVar(&o.TrustDomain, "identity-trust-domain", o.TrustDomain, "domain of TLS identities (default: the cluster domain)")
	flags.TextVar(&o.DefaultOpaquePorts, "default-opaque-ports", o.DefaultOpaquePorts,
		"`ports` handled as bytes unless something else is said")
	flags.TextVar(&o.ClusterNetworks, "cluster-networks", o.ClusterNetworks,
		"`networks` of the cluster, comma-separated (proxies get fd00::/8 too by default, and with --enable-ipv6 so does policy)")
	flags.TextVar(&o.ProbeNetworks, "probe-networks", o.ProbeNetworks, "`networks` from which kubelets probe, comma-separated")
	flags.StringVar(&o.DefaultPolicy, "default-policy", o.DefaultPolicy, "inbound policy where none is configured")
	flags.StringVar(&o.GlobalEgressNetworkNamespace, "global-egress-network-namespace", o.GlobalEgressNetworkNamespace,
		"namespace whose EgressNetworks are for all")
	flags.StringVar(&o.OutboundTransportMode, "outbound-transport-mode", o.OutboundTransportMode,
		"how meshed endpoints are reached: transport-header or transparent")
	flags.BoolVar(&o.EnableH2Upgrade, "enable-h2-upgrade", o.EnableH2Upgrade, "let proxies upgrade HTTP/1 to HTTP/2 between them")
	flags.BoolVar(&o.EnableEndpointSlices, "enable-endpoint-slices", o.EnableEndpointSlices, "read EndpointSlices rather than Endpoints")
	flags.BoolVar(&o.EnableIPv6, "enable-ipv6", o.EnableIPv6, "prefer IPv6 addresses of dual-stack services")
	flags.BoolVar(&o.ExtEndpointZoneWeights, "ext-endpoint-zone-weights", o.ExtEndpointZoneWeights, "weigh endpoints by the client's zone")
	flags.BoolVar(&o.AllowL5dRequestHeaders, "allow-l5d-request-headers", o.AllowL5dRequestHeaders,
		"let requests set timeouts and retries by l5d-* headers")
	flags.StringVar(&o.MeshedHTTP2ClientParams, "meshed-http2-client-params", o.MeshedHTTP2ClientParams,
		"HTTP/2 parameters for clients of meshed endpoints, as JSON")
	flags.BoolVar(&o.StrictProfiles, "strict-profiles", o.StrictProfiles,
		"refuse profiles of missing services, and send empty ones for undefined ports, as Linkerd does after 2.20")
	flags.BoolVar(&o.RequireClientCertificates, "require-client-certificates", o.RequireClientCertificates,
		"refuse TLS clients without a certificate on the destination and policy ports; a proxy has none when it starts")
	flags.Uint32Var(&o.PatchTimeoutMs, "patch-timeout-ms", o.PatchTimeoutMs, "how long writing a status may take, in milliseconds")
	flags.StringVar(&o.PolicyDeployment, "policy-deployment-name", o.PolicyDeployment,
		"Deployment that owns the Lease of whoever writes status")
	flags.BoolVar(&o.EnablePprof, "enable-pprof", o.EnablePprof, "serve /debug/pprof on the admin address")
	o.linkerd.addFlags(groups.FlagSet("idle"))
}

func (o *controlPlaneFlags) complete() error {
	if err := o.linkerd.complete(); err != nil {
		return err
	}
	if o.EnableIPv6 && !o.EnableEndpointSlices {
		return errors.New("--enable-ipv6 and --enable-endpoint-slices=false exclude each other") // D148
	}
	for name, address := range o.addresses {
		o.Addresses.ByName[name] = *address
	}
	if err := o.Addresses.Check(); err != nil {
		return err
	}
	for _, err := range []error{
		oneOf("outbound-transport-mode", o.OutboundTransportMode, linkerd.TransportHeader, linkerd.TransportTransparent),
		oneOf("default-policy", o.DefaultPolicy, linkerd.InboundPolicies()...),
		domain("cluster-domain", o.ClusterDomain),
		domain("identity-trust-domain", cmp.Or(o.TrustDomain, o.ClusterDomain)),
		namespace("controller-namespace", o.ControlPlaneNamespace),
		namespace("global-egress-network-namespace", o.GlobalEgressNetworkNamespace),
		jsonObject("meshed-http2-client-params", o.MeshedHTTP2ClientParams),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// clusterFlags are the flags of the cluster that `up` makes.
type clusterFlags struct {
	config   embedded.Config
	plane    controlPlaneFlags
	identity identityFlags

	inject, podCIDR, gatewayAPI string
	nodes                       []string
	run                         runFlags
}

func newClusterFlags() clusterFlags {
	config := embedded.DefaultConfig()
	return clusterFlags{
		config:   config,
		plane:    controlPlaneFlags{ControlPlaneConfig: config.ControlPlane},
		identity: identityFlags{config.Identity},
	}
}

func (o *clusterFlags) addFlags(groups *cliflag.NamedFlagSets) {
	c := &o.config
	flags := groups.FlagSet("cluster")
	flags.StringSliceVar(&c.Without, "without", nil, "parts to leave out: "+strings.Join(embedded.OptionalParts(), ", "))
	flags.StringVar(&o.inject, "inject", "disabled", "proxy injection where linkerd.io/inject says nothing: enabled or disabled")
	flags.StringArrayVar(&o.nodes, "node", nil, "a node, as NAME or NAME=ZONE; repeatable (default "+kubelet.DefaultNode+")")
	flags.StringVar(&o.gatewayAPI, "gateway-api", "bundled", "definitions of the Gateway API: bundled or none")
	flags.StringVar(&c.ServiceCIDR, "service-cidr", c.ServiceCIDR, "ranges of cluster IPs, one or one per family")
	flags.StringVar(&o.podCIDR, "pod-cidr", embedded.DefaultPodCIDR, "ranges of pod IPs, one or one per family")
	o.run.addFlags(groups.FlagSet("pods"))
	flags = groups.FlagSet("data")
	addDataDirFlag(flags, &c.DataDir)
	flags.BoolVar(&c.Ephemeral, "ephemeral", false, "keep the data in a temporary directory that is removed at the end")
	flags.StringArrayVar(&c.Exclude, "exclude", nil,
		"a pattern, in the syntax of .gitignore, of what is no manifest; repeatable. Files named .linkerdliteignore in a DIR do the same")
	flags.BoolVar(&c.PruneEmpty, "prune-empty", false,
		"delete what came from a DIR or a kustomization that has no objects any more, instead of keeping it until it has some again")
	flags.BoolVar(&c.NoFsync, "unsafe-no-fsync", false, "do not wait for the disk: faster, but a crash of the machine may lose writes")
	flags.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "URLs of an existing etcd to use instead of the built-in one")
	var all []string
	for _, spec := range embedded.ListenerSpecs() {
		all = append(all, spec.Name)
	}
	o.plane.addFlags(groups, all...)
	o.identity.addFlags(groups.FlagSet("identity"))
	o.plane.linkerd.addKubeconfig(groups.FlagSet("idle"))
}

func addDataDirFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "data-dir", "", "directory of the instance's data (default: one per DIR under $XDG_STATE_HOME/linkerd-lite)")
}

func (o *clusterFlags) complete() error {
	c := &o.config
	if err := o.plane.complete(); err != nil {
		return err
	}
	if err := o.identity.complete(); err != nil {
		return err
	}
	for i, part := range c.Without {
		if part == "core" { // its earlier name
			c.Without[i], part = embedded.PartControlPlane, embedded.PartControlPlane
		}
		if !slices.Contains(embedded.OptionalParts(), part) {
			return fmt.Errorf("--without=%s: must be one of %s", part, strings.Join(embedded.OptionalParts(), ", "))
		}
	}
	if err := oneOf("inject", o.inject, "enabled", "disabled"); err != nil {
		return err
	}
	if err := oneOf("gateway-api", o.gatewayAPI, "bundled", "none"); err != nil {
		return err
	}
	if c.Ephemeral && c.DataDir != "" {
		return fmt.Errorf("--ephemeral and --data-dir exclude each other")
	}
	if _, err := parseRanges("service-cidr", c.ServiceCIDR); err != nil {
		return err
	}
	var err error
	if c.PodCIDRs, err = parseRanges("pod-cidr", o.podCIDR); err != nil {
		return err
	}
	for _, text := range o.nodes {
		name, zone, _ := strings.Cut(text, "=")
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return flagError("node", text, "a node needs a DNS name, such as node-1 or node-1=zone-a")
		}
		if slices.ContainsFunc(c.Nodes, func(n kubelet.Node) bool { return n.Name == name }) {
			return flagError("node", text, "there is a node of that name already")
		}
		c.Nodes = append(c.Nodes, kubelet.Node{Name: name, Zone: zone})
	}
	if c.Run, err = o.run.complete(); err != nil {
		return err
	}
	if c.Run != nil && (slices.Contains(c.Without, embedded.PartKubelet) || slices.Contains(c.Without, embedded.PartControlPlane)) {
		return errors.New("--run and --without kubelet or controlplane exclude each other")
	}
	c.ControlPlane, c.Identity = o.plane.ControlPlaneConfig, o.identity.IdentityConfig
	c.Inject, c.GatewayAPI, c.Version = o.inject == "enabled", o.gatewayAPI == "bundled", programVersion()
	return nil
}
