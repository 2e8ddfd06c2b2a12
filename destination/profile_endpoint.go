package destination

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// endpointKey is what the profile of an endpoint depends on besides the cluster.
type endpointKey struct {
	addr netip.AddrPort
	// pod is set when the address was found by the pod's name, and would not
	// lead back to the pod by itself.
	pod types.NamespacedName
}

// endpointProfile is the profile of one address. Immutable.
type endpointProfile struct {
	// message is nil while there is nothing that could be said.
	message *grpcserver.Encoded
	// pod is the pod behind the address: one that is being deleted stays
	// behind it until it is gone (D section 2.4).
	pod types.UID
}

func (p endpointProfile) equal(other endpointProfile) bool {
	return p.pod == other.pod && p.message.Equal(other.message)
}

// endpointProfiles is the family of profiles by address.
type endpointProfiles struct {
	mesh        *mesh
	trustDomain string
	servers     *view.Set[string, *opaqueServers]
}

func (p *endpointProfiles) newSet(g *view.Graph) *view.Set[endpointKey, endpointProfile] {
	return view.NewSet(g, "destination/endpoint-profiles", p.compute, endpointProfile.equal)
}

// backing is what an address belongs to; zero if nothing is known of it.
type backing struct {
	pod      *corev1.Pod
	workload *workloadv1beta1.ExternalWorkload
}

func (b backing) object() problems.Object {
	switch {
	case b.pod != nil:
		return podObject(b.pod)
	case b.workload != nil:
		return workloadObject(b.workload)
	}
	return problems.Object{}
}

// findBacking looks an address up in the indexes of pod IPs, host ports and
// workloads, in that order (D section 2.1). The error says that several share
// the address; the result is then the oldest of them.
func findBacking(r *state.Reader, addr netip.AddrPort, retained types.UID) (backing, error) {
	counts := func(pod *corev1.Pod) bool { return alive(pod, retained) }
	ip, port := addr.Addr().String(), addr.Port()
	if pods := oldestFirst(state.By(r, state.Pods, state.PodsByIP, ip), counts); len(pods) > 0 {
		var err error
		if len(pods) > 1 {
			err = status.Errorf(codes.FailedPrecondition, "found %d pods with a conflicting pod network IP %s", len(pods), ip)
		}
		return backing{pod: pods[0]}, err
	}
	if pods := oldestFirst(state.By(r, state.Pods, state.PodsByHostPort, addr.String()), counts); len(pods) > 0 {
		var err error
		if len(pods) > 1 {
			err = status.Errorf(codes.FailedPrecondition, "found %d pods with a conflicting host network endpoint %s:%d", len(pods), ip, port)
		}
		return backing{pod: pods[0]}, err
	}
	all := func(*workloadv1beta1.ExternalWorkload) bool { return true }
	if workloads := oldestFirst(state.By(r, state.ExternalWorkloads, state.WorkloadsByIPPort, addr.String()), all); len(workloads) > 0 {
		var err error
		if len(workloads) > 1 {
			err = status.Errorf(codes.FailedPrecondition, "found %d externalworkloads with a conflicting ip %s:%d", len(workloads), ip, port)
		}
		return backing{workload: workloads[0]}, err
	}
	return backing{}, nil
}

// alive tells whether a pod has its addresses still: it has not finished, and
// is not being deleted, unless retained.
func alive(pod *corev1.Pod, retained types.UID) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
		(pod.DeletionTimestamp == nil || retained != "" && pod.UID == retained)
}

func oldestFirst[T metav1.Object](objects func(func(T) bool), counts func(T) bool) []T {
	var found []T
	for obj := range objects {
		if counts(obj) {
			found = append(found, obj)
		}
	}
	slices.SortStableFunc(found, func(a, b T) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// find is what is behind the key.
func (p *endpointProfiles) find(r *state.Reader, key endpointKey, retained types.UID) backing {
	if key.pod.Name != "" {
		pod, ok := state.Get(r, state.Pods, key.pod.Namespace, key.pod.Name)
		// Found by its name, it counts until it is gone.
		if ok && alive(pod, pod.UID) {
			if ip, err := netip.ParseAddr(pod.Status.PodIP); err == nil && ip.Unmap() == key.addr.Addr() {
				return backing{pod: pod}
			}
		}
	}
	// A conflict that arises while a stream is open leaves the older owner in place.
	behind, _ := findBacking(r, key.addr, retained)
	return behind
}

func (p *endpointProfiles) compute(r *view.Reader, key endpointKey, previous *endpointProfile) endpointProfile {
	addr := key.addr
	var retained types.UID
	if previous != nil {
		retained = previous.pod
	}
	behind := p.find(r.Reader, key, retained)
	profile := &pb.DestinationProfile{RetryBudget: defaultRetryBudget()}
	result := endpointProfile{}
	var err error
	switch {
	case behind.pod != nil && behind.pod.Status.Phase == corev1.PodRunning:
		result.pod = behind.pod.UID
		err = p.describePod(r, profile, behind, addr)
	case behind.workload != nil:
		p.describeWorkload(r, profile, behind.workload, addr)
	default:
		profile.Endpoint = &pb.WeightedAddr{Addr: tcpAddress(addr), Weight: linkerd.EndpointWeight}
		profile.OpaqueProtocol = p.mesh.opaquePorts.Contains(uint32(addr.Port()))
	}
	if err == nil {
		result.message, err = grpcserver.Encode(profile)
	}
	if err != nil {
		behind.hasNoProfile(r, addr, err)
	}
	return result
}

func (b backing) hasNoProfile(r *view.Reader, addr netip.AddrPort, err error) {
	r.Report(problems.Problem{
		Object: b.object(), Message: err.Error(), Instead: "its address " + addr.String() + " has no profile", Severity: problems.Error,
	})
}

// describePod fills in a running pod, ready or not (D124, B25).
func (p *endpointProfiles) describePod(r *view.Reader, profile *pb.DestinationProfile, behind backing, addr netip.AddrPort) error {
	pod, port := behind.pod, uint32(addr.Port())
	opaque := view.Use(r, p.servers, pod.Namespace).pod(pod, port)
	endpoint, err := p.mesh.weighPod(pod, podOwner(r.Reader, pod), addr, opaque, "", p.trustDomain, r.Report)
	if err != nil {
		return err
	}
	profile.OpaqueProtocol = p.mesh.podOpaquePorts(pod, r.Report).Contains(port) || opaque
	profile.Endpoint = inNamespace(endpoint, pod.Namespace)
	return nil
}

func (p *endpointProfiles) describeWorkload(r *view.Reader, profile *pb.DestinationProfile, w *workloadv1beta1.ExternalWorkload, addr netip.AddrPort) {
	port := uint32(addr.Port())
	opaque := view.Use(r, p.servers, w.Namespace).workload(w, port)
	var owned owner
	if len(w.OwnerReferences) == 1 {
		// Here, unlike in Get, the kind keeps its case (D section 2.4).
		owned = owner{w.OwnerReferences[0].Kind, w.OwnerReferences[0].Name}
	}
	profile.OpaqueProtocol = p.mesh.workloadOpaquePorts(w, r.Report).Contains(port) || opaque
	profile.Endpoint = inNamespace(p.mesh.weighWorkload(w, owned, addr, opaque, "", r.Report), w.Namespace)
}

// inNamespace completes a WeightedAddr by what only profiles show.
func inNamespace(endpoint *pb.WeightedAddr, namespace string) *pb.WeightedAddr {
	endpoint.Weight = linkerd.EndpointWeight
	endpoint.MetricLabels["namespace"] = namespace
	return endpoint
}

// instancePod finds the pod behind an instance's name (D120-D122): that of the
// first endpoint with that hostname, ready or not.
func (s *Server) instancePod(r *state.Reader, name serviceName) (*corev1.Pod, error) {
	service := name.namespace + "/" + name.service
	var ref *corev1.ObjectReference
	var missing error
	if s.config.EnableEndpointSlices {
		missing = status.Errorf(codes.NotFound, "no pod found in EndpointSlices of Service %s for hostname %s", service, name.hostname)
		ref = instanceInSlices(r, service, name.hostname)
	} else {
		missing = status.Errorf(codes.NotFound, "no pod found in Endpoints %s for hostname %s", service, name.hostname)
		object, ok := state.Get(r, state.Endpoints, name.namespace, name.service)
		if !ok {
			return nil, status.Errorf(codes.Unknown, "endpoints %s not found", strconv.Quote(name.service))
		}
		ref = instanceInSubsets(object.Subsets, name.hostname)
	}
	if ref == nil || ref.Kind != "Pod" {
		return nil, missing
	}
	pod, ok := state.Get(r, state.Pods, ref.Namespace, ref.Name)
	if !ok {
		return nil, status.Errorf(codes.Unknown, "pod %s not found", strconv.Quote(ref.Name))
	}
	return pod, nil
}

func instanceInSlices(r *state.Reader, service, hostname string) *corev1.ObjectReference {
	for slice := range state.By(r, state.EndpointSlices, state.SlicesByService, service) {
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.Hostname != nil && *e.Hostname == hostname {
				return e.TargetRef
			}
		}
	}
	return nil
}

//lint:ignore SA1019 Endpoints mode reads them
func instanceInSubsets(subsets []corev1.EndpointSubset, hostname string) *corev1.ObjectReference {
	for _, subset := range subsets {
		for _, addresses := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for i := range addresses {
				if addresses[i].Hostname == hostname {
					return addresses[i].TargetRef
				}
			}
		}
	}
	return nil
}
