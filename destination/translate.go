package destination

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"google.golang.org/protobuf/proto"
)

// portKey is a port of a Service as clients ask for it.
type portKey struct {
	namespace, service string
	port               uint32
}

// endpoints are all endpoints of a Service port. Immutable.
type endpoints struct {
	exists bool
	// local is set if the Service wants traffic to stay on the client's node.
	local bool
	// zoned is set if what a client sees may depend on its zone.
	zoned bool
	// dual is set if there are pods of both address families.
	dual bool
	// list is sorted by compareEndpoints.
	list []*endpoint
	// sources are what each endpoint was made of.
	sources map[identity]sourced
	// problems are what is wrong with sources; nil nearly always.
	problems map[identity][]problems.Problem
}

// source is everything that an endpoint is made of.
type source struct {
	host           string
	port           uint32
	hostname, zone string
	hints          string
	labels         *setLabels

	pod      *corev1.Pod
	workload *workloadv1beta1.ExternalWorkload
	owner    owner
	servers  *opaqueServers

	gatewayIdentity, authorityOverride string
}

type sourced struct {
	source   source
	endpoint *endpoint
}

// translation is the making of one endpoints value. The order in which slices
// are seen does not matter: they are merged in the order of their writes.
type translation struct {
	*clusterViews
	r        *view.Reader
	key      portKey
	previous *endpoints
	target   targetPort
	labels   []*setLabels
	found    map[identity]sourced
	// at is what is looked at, and problems is what was found wrong with it and with others.
	at       identity
	problems map[identity][]problems.Problem
	say      report
}

// translate computes the endpoints of a Service port from the present objects
// and nothing else. What has not changed is taken over from previous.
func (v *clusterViews) translate(r *view.Reader, key portKey, previous **endpoints) *endpoints {
	t := &translation{clusterViews: v, r: r, key: key, previous: &endpoints{}, found: map[identity]sourced{}}
	t.say = t.note
	if previous != nil {
		t.previous = *previous
		for _, old := range t.previous.sources {
			if !slices.Contains(t.labels, old.source.labels) {
				t.labels = append(t.labels, old.source.labels)
			}
		}
	}
	result := &endpoints{}
	if service, ok := state.Get(r.Reader, state.Services, key.namespace, key.service); ok {
		result.exists = true
		result.local = service.Spec.InternalTrafficPolicy != nil && *service.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		t.target = resolveTargetPort(service, key.port)
		if v.endpointSlices {
			t.slices()
		} else {
			t.endpointsObject()
		}
	}
	result.sources, result.problems = t.found, t.problems
	if t.problems != nil {
		t.report()
	}
	result.collect()
	if previous != nil && t.previous.equal(result) {
		return t.previous
	}
	return result
}

// collect fills the fields that follow from sources.
func (e *endpoints) collect() {
	e.list = make([]*endpoint, 0, len(e.sources))
	families := map[discoveryv1.AddressType]bool{}
	for _, s := range e.sources {
		e.list = append(e.list, s.endpoint)
		e.zoned = e.zoned || s.endpoint.zone != "" || s.endpoint.hints != ""
		families[s.endpoint.family] = true
	}
	e.dual = families[discoveryv1.AddressTypeIPv4] && families[discoveryv1.AddressTypeIPv6]
	slices.SortFunc(e.list, compareEndpoints)
}

// equal holds if clients cannot tell the difference; endpoints are compared by
// pointer, since equal ones are kept.
func (e *endpoints) equal(other *endpoints) bool {
	return e.exists == other.exists && e.local == other.local && slices.Equal(e.list, other.list)
}

// targetPort is what a slice's ports are searched for.
type targetPort struct {
	// named: the slice port of this name, else number as it is.
	named  bool
	name   string
	number uint32
}

// resolveTargetPort looks for the Service's port of that number, whatever its
// protocol. Its targetPort is never read: slices know better (D section 1.6).
func resolveTargetPort(service *corev1.Service, port uint32) targetPort {
	for _, p := range service.Spec.Ports {
		if uint32(p.Port) == port {
			return targetPort{named: true, name: p.Name}
		}
	}
	return targetPort{number: port}
}

func (t targetPort) inSlice(ports []discoveryv1.EndpointPort) (uint32, bool) {
	if ports == nil {
		return 0, false
	}
	if !t.named {
		return t.number, true
	}
	for _, p := range ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		// The API accepts numbers that are no ports (B09).
		if name == t.name && p.Port != nil && *p.Port >= 1 && *p.Port <= 65535 {
			return uint32(*p.Port), true
		}
	}
	return 0, false
}

func (t targetPort) inSubset(ports []corev1.EndpointPort) (uint32, bool) {
	if !t.named {
		return t.number, true
	}
	for _, p := range ports {
		if p.Name == t.name {
			return uint32(p.Port), true
		}
	}
	return 0, false
}

// slices merges the Service's slices: where two define one identity, the slice
// that was written last wins, whichever was heard of last. Only
// ExternalWorkloads have one identity for both address families; which family
// they have does not hang on who wrote last.
func (t *translation) slices() {
	preferred := discoveryv1.AddressTypeIPv4
	if t.ipv6 {
		preferred = discoveryv1.AddressTypeIPv6
	}
	found := slices.SortedFunc(
		state.By(t.r.Reader, state.EndpointSlices, state.SlicesByService, t.key.namespace+"/"+t.key.service),
		func(a, b *discoveryv1.EndpointSlice) int {
			if c := compareBools(a.AddressType == preferred, b.AddressType == preferred); c != 0 {
				return c
			}
			if c, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion); err == nil && c != 0 {
				return c
			}
			return strings.Compare(a.Name, b.Name)
		})
	for _, slice := range found {
		if port, ok := t.target.inSlice(slice.Ports); ok {
			t.slice(slice, port)
		}
	}
}

func (t *translation) slice(slice *discoveryv1.EndpointSlice, port uint32) {
	labels := t.intern(labelsOf(slice.Labels[discoveryv1.LabelServiceName], &slice.ObjectMeta))
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		s := source{port: port, labels: labels, hints: hintsOf(e.Hints)}
		if e.Hostname != nil {
			s.hostname = *e.Hostname
		}
		if e.Zone != nil {
			s.zone = *e.Zone
		}
		for _, address := range e.Addresses {
			s.host = address
			t.add(s, e.TargetRef, slice.AddressType, &slice.ObjectMeta)
		}
	}
}

// endpointsObject reads the Endpoints of the Service (D section 1.8).
func (t *translation) endpointsObject() {
	object, ok := state.Get(t.r.Reader, state.Endpoints, t.key.namespace, t.key.service)
	if !ok {
		return
	}
	labels := t.intern(labelsOf(object.Name, &object.ObjectMeta))
	for _, subset := range object.Subsets {
		port, ok := t.target.inSubset(subset.Ports)
		if !ok {
			continue
		}
		for _, address := range subset.Addresses {
			if address.TargetRef == nil || address.TargetRef.Kind == "Pod" {
				t.add(source{host: address.IP, port: port, hostname: address.Hostname, labels: labels}, address.TargetRef, "", &object.ObjectMeta)
			}
		}
	}
}

// add completes a source by what it refers to and makes it an endpoint. What
// is not there yet adds nothing, but the view will hear of it (D24).
func (t *translation) add(s source, ref *corev1.ObjectReference, family discoveryv1.AddressType, from *metav1.ObjectMeta) {
	var ok bool
	var id identity
	switch {
	case ref == nil:
		id = identity{kind: addressEndpoint, namespace: from.Namespace, host: s.host, hostname: s.hostname, port: s.port}
		s.zone = ""
		s.gatewayIdentity = from.Annotations[linkerd.RemoteGatewayIdentityAnnotation]
		if fqn, ok := from.Annotations[linkerd.RemoteServiceFQNAnnotation]; ok {
			s.authorityOverride = net.JoinHostPort(fqn, strconv.Itoa(int(t.key.port)))
		}
	case ref.Kind == "Pod":
		id = identity{kind: podEndpoint, namespace: ref.Namespace, name: ref.Name, family: family}
		if s.pod, ok = state.Get(t.r.Reader, state.Pods, ref.Namespace, ref.Name); !ok {
			return
		}
		s.owner = podOwner(t.r.Reader, s.pod)
		s.servers = view.Use(t.r, t.servers, s.pod.Namespace)
	case ref.Kind == "ExternalWorkload":
		id = identity{kind: workloadEndpoint, namespace: from.Namespace, name: ref.Name}
		if s.workload, ok = state.Get(t.r.Reader, state.ExternalWorkloads, from.Namespace, ref.Name); !ok {
			return
		}
		if owners := s.workload.OwnerReferences; len(owners) == 1 {
			s.owner = ownerOf(owners[0])
		}
		s.servers = view.Use(t.r, t.servers, s.workload.Namespace)
	default:
		return
	}
	before, known := t.previous.sources[id]
	t.at = id
	if known && before.source == s {
		if t.previous.problems != nil {
			t.noteAgain()
		}
		t.found[id] = before
		return
	}
	e := t.endpoint(&id, &s)
	if known && before.endpoint.equal(e) {
		e = before.endpoint
	}
	t.found[id] = sourced{s, e}
}

// noteAgain is note of what was wrong before.
func (t *translation) noteAgain() {
	if found := t.previous.problems[t.at]; len(found) > 0 {
		t.note(found...)
	}
}

func (t *translation) report() {
	for _, found := range t.problems {
		t.r.Report(found...)
	}
}

// note keeps what is wrong with what is looked at.
func (t *translation) note(found ...problems.Problem) {
	if t.problems == nil {
		t.problems = map[identity][]problems.Problem{}
	}
	t.problems[t.at] = append(t.problems[t.at], found...)
}

// endpoint encodes what a source amounts to.
func (t *translation) endpoint(id *identity, s *source) *endpoint {
	e := &endpoint{identity: *id, host: s.host, hostname: s.hostname, zone: s.zone, hints: s.hints, labels: s.labels}
	ip, err := netip.ParseAddr(s.host)
	if err != nil || ip.Zone() != "" {
		return e // D section 1.12
	}
	e.addr = netip.AddrPortFrom(ip.Unmap(), uint16(s.port))
	var weighted *pb.WeightedAddr
	switch id.kind {
	case podEndpoint:
		e.node = s.pod.Spec.NodeName
		e.serverOpaque = s.servers.pod(s.pod, s.port)
		weighted, err = t.mesh.weighPod(s.pod, s.owner, e.addr, e.serverOpaque, s.zone, t.trustDomain, t.say)
	case workloadEndpoint:
		e.serverOpaque = s.servers.workload(s.workload, s.port)
		weighted = t.mesh.weighWorkload(s.workload, s.owner, e.addr, e.serverOpaque, s.zone, t.say)
	case addressEndpoint:
		weighted = t.mesh.weighAddress(e.addr, s.gatewayIdentity, s.authorityOverride)
	}
	if err == nil {
		e.weighted, err = proto.MarshalOptions{Deterministic: true}.Marshal(weighted)
	}
	if err != nil {
		t.leftOut(backing{s.pod, s.workload}, err)
		e.weighted = nil
	}
	return e
}

// leftOut notes that what is looked at has no address.
func (t *translation) leftOut(of backing, err error) {
	object := of.object()
	if object == (problems.Object{}) {
		object = serviceObject(t.key.namespace, t.key.service)
	}
	t.note(problems.Problem{
		Object: object, Message: err.Error(),
		Instead: "its endpoints of Service " + t.key.namespace + "/" + t.key.service + " are left out", Severity: problems.Error,
	})
}

// intern makes equal labels equal as pointers within a view.
func (t *translation) intern(labels setLabels) *setLabels {
	for _, known := range t.labels {
		if *known == labels {
			return known
		}
	}
	t.labels = append(t.labels, &labels)
	return &labels
}

// labelsOf reads the set labels from a slice or an Endpoints object.
func labelsOf(service string, from *metav1.ObjectMeta) setLabels {
	labels := setLabels{service: service, namespace: from.Namespace}
	// What was written as protobuf may be no text, and clients read no message that has such a label (F11).
	text := func(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }
	cluster, mirrored := from.Labels[linkerd.MirrorClusterLabel]
	labels.targetCluster, labels.mirrored = text(cluster), mirrored
	if !labels.mirrored {
		return labels
	}
	if parts := strings.Split(text(from.Annotations[linkerd.RemoteServiceFQNAnnotation]), "."); len(parts) >= 2 {
		labels.mirroredService = true
		labels.targetService, labels.targetNamespace = parts[0], parts[1]
	}
	return labels
}

// hintsOf returns the zones of forZones in the form of endpoint.hints.
func hintsOf(hints *discoveryv1.EndpointHints) string {
	if hints == nil || len(hints.ForZones) == 0 {
		return ""
	}
	zones := make([]string, len(hints.ForZones))
	for i, z := range hints.ForZones {
		zones[i] = z.Name + "\n"
	}
	slices.Sort(zones)
	return strings.Join(slices.Compact(zones), "")
}
