package state

import (
	"net"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	policyv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta1"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
)

// The numbers of the kinds.
const (
	serviceID = iota
	podID
	endpointSliceID
	endpointsID
	nodeID
	replicaSetID
	jobID
	secretID
	serviceProfileID
	externalWorkloadID
	serverID
	serverAuthorizationID
	authorizationPolicyID
	meshTLSAuthenticationID
	networkAuthenticationID
	httpLocalRateLimitPolicyID
	egressNetworkID
	policyHTTPRouteID
	httpRouteID
	grpcRouteID
	tlsRouteID
	tcpRouteID
	kindCount
)

// The kinds that the control plane reads, and their secondary indexes
// (D section 3.1 and 3.2; policy-inbound 1.3). Immutable.
var (
	// ServicesByIP has each clusterIP of a Service.
	ServicesByIP = NewIndex(0, "ip", serviceIPs)
	Services     = kind(serviceID, "service", corev1.SchemeGroupVersion.WithKind("Service"), "services", full, trimService, ServicesByIP)

	// PodsByIP has each pod IP of pods that have a network of their own.
	PodsByIP = NewIndex(0, "ip", podIPs)
	// PodsByHostPort has host IP and host port, as written by net.JoinHostPort.
	PodsByHostPort = NewIndex(1, "hostport", podHostPorts)
	Pods           = kind(podID, "pod", corev1.SchemeGroupVersion.WithKind("Pod"), "pods", full, trimPod, PodsByIP, PodsByHostPort)

	// SlicesByService has "namespace/service", see SliceService.
	SlicesByService = NewIndex(0, "service", func(s *discoveryv1.EndpointSlice) []string {
		if name := SliceService(s); name != "" {
			return []string{objectKey(s.Namespace, name)}
		}
		return nil
	})
	EndpointSlices = kind(endpointSliceID, "endpointslices", discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "endpointslices", full, trimMeta[*discoveryv1.EndpointSlice], SlicesByService)

	// Endpoints are read in their mode instead of slices (D section 1.8).
	//
	//lint:ignore SA1019 the mode is about them
	Endpoints = kind(endpointsID, "endpoints", corev1.SchemeGroupVersion.WithKind("Endpoints"), "endpoints", full, trimMeta[*corev1.Endpoints])

	Nodes       = kind(nodeID, "node", corev1.SchemeGroupVersion.WithKind("Node"), "nodes", metadataOnly, trimMeta[*metav1.PartialObjectMetadata])
	ReplicaSets = kind(replicaSetID, "replicaset", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), "replicasets", metadataOnly, trimMeta[*metav1.PartialObjectMetadata])
	Jobs        = kind(jobID, "job", batchv1.SchemeGroupVersion.WithKind("Job"), "jobs", metadataOnly, trimMeta[*metav1.PartialObjectMetadata])

	// Secrets are those of the control-plane namespace that link a cluster.
	Secrets = kind(secretID, "secret", corev1.SchemeGroupVersion.WithKind("Secret"), "secrets", full, trimMeta[*corev1.Secret])

	ServiceProfiles = kind(serviceProfileID, "serviceprofile", linkerdv1alpha2.SchemeGroupVersion.WithKind("ServiceProfile"), "serviceprofiles", custom, trimMeta[*linkerdv1alpha2.ServiceProfile])

	// WorkloadsByIPPort has each workload IP with each declared port, as written by net.JoinHostPort.
	WorkloadsByIPPort = NewIndex(0, "ipport", workloadIPPorts)
	ExternalWorkloads = kind(externalWorkloadID, "externalworkload", workloadv1beta1.SchemeGroupVersion.WithKind("ExternalWorkload"), "externalworkloads", custom, trimMeta[*workloadv1beta1.ExternalWorkload], WorkloadsByIPPort)

	Servers                    = kind(serverID, "server", policyv1beta3.SchemeGroupVersion.WithKind("Server"), "servers", custom, trimMeta[*policyv1beta3.Server])
	ServerAuthorizations       = kind(serverAuthorizationID, "serverauthorization", policyv1beta1.SchemeGroupVersion.WithKind("ServerAuthorization"), "serverauthorizations", custom, trimMeta[*policyv1beta1.ServerAuthorization])
	AuthorizationPolicies      = kind(authorizationPolicyID, "authorizationpolicy", policyv1alpha1.SchemeGroupVersion.WithKind("AuthorizationPolicy"), "authorizationpolicies", custom, trimMeta[*policyv1alpha1.AuthorizationPolicy])
	MeshTLSAuthentications     = kind(meshTLSAuthenticationID, "meshtlsauthentication", policyv1alpha1.SchemeGroupVersion.WithKind("MeshTLSAuthentication"), "meshtlsauthentications", custom, trimMeta[*policyv1alpha1.MeshTLSAuthentication])
	NetworkAuthentications     = kind(networkAuthenticationID, "networkauthentication", policyv1alpha1.SchemeGroupVersion.WithKind("NetworkAuthentication"), "networkauthentications", custom, trimMeta[*policyv1alpha1.NetworkAuthentication])
	HTTPLocalRateLimitPolicies = kind(httpLocalRateLimitPolicyID, "httplocalratelimitpolicy", policyv1alpha1.SchemeGroupVersion.WithKind("HTTPLocalRateLimitPolicy"), "httplocalratelimitpolicies", custom, trimMeta[*policyv1alpha1.HTTPLocalRateLimitPolicy])
	EgressNetworks             = kind(egressNetworkID, "egressnetwork", policyv1alpha1.SchemeGroupVersion.WithKind("EgressNetwork"), "egressnetworks", custom, trimMeta[*policyv1alpha1.EgressNetwork])
	PolicyHTTPRoutes           = kind(policyHTTPRouteID, "policy-httproute", policyv1beta3.SchemeGroupVersion.WithKind("HTTPRoute"), "httproutes", custom, trimMeta[*policyv1beta3.HTTPRoute])
	HTTPRoutes                 = kind(httpRouteID, "httproute", gatewayv1.SchemeGroupVersion.WithKind("HTTPRoute"), "httproutes", custom, trimMeta[*gatewayv1.HTTPRoute])
	GRPCRoutes                 = kind(grpcRouteID, "grpcroute", gatewayv1.SchemeGroupVersion.WithKind("GRPCRoute"), "grpcroutes", custom, trimMeta[*gatewayv1.GRPCRoute])
	TLSRoutes                  = kind(tlsRouteID, "tlsroute", gatewayv1alpha2.SchemeGroupVersion.WithKind("TLSRoute"), "tlsroutes", custom, trimMeta[*gatewayv1alpha2.TLSRoute])
	TCPRoutes                  = kind(tcpRouteID, "tcproute", gatewayv1alpha2.SchemeGroupVersion.WithKind("TCPRoute"), "tcproutes", custom, trimMeta[*gatewayv1alpha2.TCPRoute])
)

// allKinds returns every kind at its id.
func allKinds() [kindCount]*KindInfo {
	var kinds [kindCount]*KindInfo
	for _, k := range []interface{ info() *KindInfo }{
		Services, Pods, EndpointSlices, Endpoints, Nodes, ReplicaSets, Jobs, Secrets, ServiceProfiles, ExternalWorkloads,
		Servers, ServerAuthorizations, AuthorizationPolicies, MeshTLSAuthentications, NetworkAuthentications,
		HTTPLocalRateLimitPolicies, EgressNetworks, PolicyHTTPRoutes, HTTPRoutes, GRPCRoutes, TLSRoutes, TCPRoutes,
	} {
		kinds[k.info().id] = k.info()
	}
	return kinds
}

// LocalKinds are the kinds read from the cluster the control plane serves.
// Endpoints and slices are alternatives (D section 1.8).
func LocalKinds(endpointSlices bool) []*KindInfo {
	var infos []*KindInfo
	for _, k := range allKinds() {
		if endpointSlices && k.id == Endpoints.id {
			continue
		}
		infos = append(infos, k)
	}
	return infos
}

// RemoteKinds are the kinds read from a linked cluster (D section 1.16).
func RemoteKinds(endpointSlices bool) []*KindInfo {
	endpoints := &EndpointSlices.KindInfo
	if !endpointSlices {
		endpoints = &Endpoints.KindInfo
	}
	return []*KindInfo{&Pods.KindInfo, &Services.KindInfo, &Servers.KindInfo, &ReplicaSets.KindInfo, endpoints}
}

func kind[T interface {
	Object
	kubernetesObject
	*E
}, E any](id int, name string, gvk schema.GroupVersionKind, resource string, f form, trim func(T) T, indexes ...Index[T]) *Kind[T] {
	return &Kind[T]{KindInfo{
		Name: name, GVK: gvk, GVR: gvk.GroupVersion().WithResource(resource), id: id, form: f,
		indexes: untyped(indexes),
		trim:    func(obj metav1.Object) metav1.Object { return trim(obj.(T)) },
		empty:   func() kubernetesObject { return T(new(E)) },
	}}
}

// SliceService is the name of the Service that an EndpointSlice belongs to:
// its service-name label, even if that is empty, or else its first owner of
// kind Service; "" when it belongs to none (D section 1.7, D30, D31).
func SliceService(slice *discoveryv1.EndpointSlice) string {
	if name, ok := slice.Labels[discoveryv1.LabelServiceName]; ok {
		return name
	}
	for _, owner := range slice.OwnerReferences {
		if owner.Kind == "Service" && owner.Name != "" {
			return owner.Name
		}
	}
	return ""
}

func serviceIPs(service *corev1.Service) []string {
	ips := service.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{service.Spec.ClusterIP}
	}
	var keys []string
	for _, ip := range ips {
		if ip != "" && ip != corev1.ClusterIPNone {
			keys = append(keys, canonicalIP(ip))
		}
	}
	return keys
}

func podIPs(pod *corev1.Pod) []string {
	if pod.Spec.HostNetwork {
		return nil
	}
	if len(pod.Status.PodIPs) == 0 {
		if pod.Status.PodIP == "" {
			return nil
		}
		return []string{canonicalIP(pod.Status.PodIP)}
	}
	var keys []string
	for _, ip := range pod.Status.PodIPs {
		keys = append(keys, canonicalIP(ip.IP))
	}
	return keys
}

func podHostPorts(pod *corev1.Pod) []string {
	var hosts []string
	for _, ip := range pod.Status.HostIPs {
		hosts = append(hosts, canonicalIP(ip.IP))
	}
	if len(hosts) == 0 && pod.Status.HostIP != "" {
		hosts = []string{canonicalIP(pod.Status.HostIP)}
	}
	if len(hosts) == 0 {
		return nil
	}
	var keys []string
	seen := map[string]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			for _, port := range c.Ports {
				if port.HostPort == 0 {
					continue
				}
				for _, host := range hosts {
					key := net.JoinHostPort(host, strconv.Itoa(int(port.HostPort)))
					if !seen[key] {
						seen[key] = true
						keys = append(keys, key)
					}
				}
			}
		}
	}
	return keys
}

func workloadIPPorts(ew *workloadv1beta1.ExternalWorkload) []string {
	var keys []string
	for _, ip := range ew.Spec.WorkloadIPs {
		for _, port := range ew.Spec.Ports {
			keys = append(keys, net.JoinHostPort(canonicalIP(ip.IP), strconv.Itoa(int(port.Port))))
		}
	}
	return keys
}

// canonicalIP makes two spellings of one address equal; what is no address stays as it is.
func canonicalIP(ip string) string {
	if parsed := net.ParseIP(strings.TrimSpace(ip)); parsed != nil {
		return parsed.String()
	}
	return ip
}
