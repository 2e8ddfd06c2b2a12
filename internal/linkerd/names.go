package linkerd

// Version is the version of Linkerd whose behaviour this program has.
const Version = "2.20"

// Labels (cluster section 9).
const (
	ControlPlaneNSLabel        = "linkerd.io/control-plane-ns"
	ControlPlaneComponentLabel = "linkerd.io/control-plane-component"
	WorkloadNSLabel            = "linkerd.io/workload-ns"
	CNIResourceLabel           = "linkerd.io/cni-resource"
	ProxyOwnerLabelPrefix      = "linkerd.io/proxy-"
	PodTemplateHashLabel       = "pod-template-hash"
	TopologyZoneLabel          = "topology.kubernetes.io/zone"

	// RemoteDiscoveryLabel on a Service names the cluster in which it is
	// discovered; the annotation of the same name means federation (D 1.5).
	RemoteDiscoveryLabel = "multicluster.linkerd.io/remote-discovery"
	RemoteServiceLabel   = "multicluster.linkerd.io/remote-service"
	ClusterNameLabel     = "multicluster.linkerd.io/cluster-name"
	MirrorClusterLabel   = "mirror.linkerd.io/cluster-name"

	// AdmissionWebhooksLabel on a namespace, with the value disabled, keeps its objects from Linkerd's webhooks.
	AdmissionWebhooksLabel = "config.linkerd.io/admission-webhooks"
)

// Annotations (cluster section 10).
const (
	InjectAnnotation               = "linkerd.io/inject"
	OpaquePortsAnnotation          = "config.linkerd.io/opaque-ports"
	SkipInboundPortsAnnotation     = "config.linkerd.io/skip-inbound-ports"
	DefaultInboundPolicyAnnotation = "config.linkerd.io/default-inbound-policy"
	RequireIdentityAnnotation      = "config.linkerd.io/proxy-require-identity-inbound-ports"

	RemoteDiscoveryAnnotation = "multicluster.linkerd.io/remote-discovery"
	LocalDiscoveryAnnotation  = "multicluster.linkerd.io/local-discovery"
	TrustDomainAnnotation     = "multicluster.linkerd.io/trust-domain"
	ClusterDomainAnnotation   = "multicluster.linkerd.io/cluster-domain"

	RemoteServiceFQNAnnotation      = "mirror.linkerd.io/remote-svc-fq-name"
	RemoteGatewayIdentityAnnotation = "mirror.linkerd.io/remote-gateway-identity"
)

// RemoteKubeconfigSecretType is the type of a Secret that links a cluster, and
// RemoteKubeconfigKey its data key (D 3.4).
const (
	RemoteKubeconfigSecretType = "mirror.linkerd.io/remote-kubeconfig"
	RemoteKubeconfigKey        = "kubeconfig"
)

// The proxy container and the environment that the control plane reads from it.
const (
	ProxyContainerName   = "linkerd-proxy"
	ProxyInboundAddrEnv  = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR"
	ProxyAdminAddrEnv    = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
	ProxyControlAddrEnv  = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR"
	ProxyIdentityNameEnv = "LINKERD2_PROXY_IDENTITY_LOCAL_NAME"
	// ExternalWorkloadProxyPort is the name of the workload port on which its proxy listens.
	ExternalWorkloadProxyPort = "linkerd-proxy"
)

// Ports (cluster section 3).
const (
	DestinationPort   = 8086
	PolicyPort        = 8090
	IdentityPort      = 8080
	ProxyInboundPort  = 4143
	ProxyOutboundPort = 4140
	ProxyAdminPort    = 4191
	ProxyControlPort  = 4190
)

// Defaults are the values of the 2.20 chart, but DefaultClusterNetworks: those
// are of the policy controller's own flag, and lack the chart's IPv6 range.
const (
	DefaultControlPlaneNamespace        = "linkerd"
	DefaultClusterDomain                = "cluster.local"
	DefaultOpaquePorts                  = "25,587,3306,4444,5432,6379,9300,11211"
	DefaultClusterNetworks              = "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16"
	ChartClusterNetworks                = DefaultClusterNetworks + ",fd00::/8"
	DefaultProbeNetworks                = "0.0.0.0/0,::/0"
	DefaultInboundPolicy                = "all-unauthenticated"
	DefaultEgressNamespace              = "linkerd-egress"
	DefaultMeshedHTTP2Params            = `{"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}`
	DestinationWriteLease               = "linkerd-destination-endpoint-write"
	PolicyWriteLease                    = "policy-controller-write"
	PolicyControllerName                = "linkerd.io/policy-controller"
	ExternalWorkloadSliceManager        = "linkerd-external-workloads-controller"
	ExternalWorkloadSlicePrefix         = "linkerd-external-"
	EndpointWeight               uint32 = 10000
)

// InboundPolicies are the names of policies for ports that have no Server.
func InboundPolicies() []string {
	return []string{"all-unauthenticated", "all-authenticated", "cluster-unauthenticated", "cluster-authenticated", "deny", "audit"}
}
