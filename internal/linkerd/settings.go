package linkerd

// Values of Settings.OutboundTransportMode.
const (
	// TransportTransparent lets proxies speak to meshed endpoints on the endpoint's own port.
	TransportTransparent = "transparent"
	// TransportHeader makes proxies speak to meshed endpoints through their inbound port.
	TransportHeader = "transport-header"
)

// Settings are what the flags of Linkerd's controllers and the ConfigMap
// linkerd-config say of a mesh. Whoever starts the parts reads them once; each
// part has them whole in its Config and takes what it needs, so that a new one
// has two ends: its flag and the code that acts on it. Immutable.
type Settings struct {
	// ControlPlaneNamespace and TrustDomain are part of every identity.
	ControlPlaneNamespace string
	TrustDomain           string
	ClusterDomain         string
	// ClusterNetworks is read by way of PolicyNetworks and ProxyNetworks.
	ClusterNetworks Networks
	// ProbeNetworks are where kubelets probe from. Without any, probes get no route.
	ProbeNetworks Networks
	// DefaultOpaquePorts are those of workloads and Services without an annotation.
	DefaultOpaquePorts PortList
	// DefaultPolicy is the inbound policy of ports that have no Server, one of InboundPolicies.
	DefaultPolicy string
	// GlobalEgressNetworkNamespace holds the EgressNetworks of clients whose
	// namespace has none.
	GlobalEgressNetworkNamespace string
	// OutboundTransportMode is one of the Transport constants; another value means TransportTransparent.
	OutboundTransportMode string
	EnableH2Upgrade       bool
	// EnableEndpointSlices false reads Endpoints instead.
	EnableEndpointSlices bool
	// EnableIPv6 requires EnableEndpointSlices.
	EnableIPv6 bool
	// ExtEndpointZoneWeights makes endpoints of the client's zone ten times as heavy.
	ExtEndpointZoneWeights bool
	// AllowL5dRequestHeaders lets clients set timeouts and retries by headers.
	AllowL5dRequestHeaders bool
	// MeshedHTTP2ClientParams is a JSON object in the shape of Http2ClientParams, or "".
	MeshedHTTP2ClientParams string
	// StrictProfiles answers calls for the profile of a Service that is not
	// there with an error, and for one without the port with an empty profile, as
	// versions after 2.20 do (destination 2.5).
	StrictProfiles bool
}

// DefaultSettings are those of Linkerd's chart.
func DefaultSettings() Settings {
	return Settings{
		ControlPlaneNamespace:        DefaultControlPlaneNamespace,
		TrustDomain:                  DefaultClusterDomain,
		ClusterDomain:                DefaultClusterDomain,
		ClusterNetworks:              MustParseNetworks(DefaultClusterNetworks),
		ProbeNetworks:                MustParseNetworks(DefaultProbeNetworks),
		DefaultOpaquePorts:           MustParsePortList(DefaultOpaquePorts),
		DefaultPolicy:                DefaultInboundPolicy,
		GlobalEgressNetworkNamespace: DefaultEgressNamespace,
		OutboundTransportMode:        TransportHeader,
		EnableH2Upgrade:              true,
		EnableEndpointSlices:         true,
		MeshedHTTP2ClientParams:      DefaultMeshedHTTP2Params,
	}
}

// PolicyNetworks are the networks of the cluster for the policy controller. The
// default is that of its own flag, to which the chart adds an IPv6 range.
func (s *Settings) PolicyNetworks() Networks {
	if s.EnableIPv6 {
		return s.ProxyNetworks()
	}
	return s.ClusterNetworks
}

// ProxyNetworks are the networks of the cluster for proxies and tools: by
// default the chart's.
func (s *Settings) ProxyNetworks() Networks {
	if s.ClusterNetworks.String() == DefaultClusterNetworks {
		return MustParseNetworks(ChartClusterNetworks)
	}
	return s.ClusterNetworks
}
