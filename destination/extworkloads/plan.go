package extworkloads

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	endpointsliceutil "k8s.io/endpointslice/util"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// maxEndpoints is how many endpoints a slice holds at most.
const maxEndpoints = 100

// Plan is what has to be written so that a Service's slices are as they should be.
type Plan struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
}

// Empty is true when nothing has to be written.
func (p Plan) Empty() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// group is the slices that can hold the same endpoints: one address family,
// one list of ports.
type group struct {
	family  discoveryv1.AddressType
	portKey endpointsliceutil.PortMapKey
}

// desired is a group's content.
type desired struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[types.NamespacedName]discoveryv1.Endpoint
}

// NewPlan compares what a Service's slices should hold with what this
// controller has written. workloads are those that the Service selects, of its
// own namespace (D141); existing are its slices by this controller. The
// arguments are not changed.
//
// Within a group (D140, D142):
//  1. Each slice keeps the endpoints that still belong to it.
//  2. New endpoints fill the slices that are written anyway, fullest first,
//     then the untouched slice that ends up closest to full.
//  3. The rest goes to new slices; these reuse slices of the same family that
//     would otherwise be deleted.
func NewPlan(service *corev1.Service, workloads []*workloadv1beta1.ExternalWorkload, existing []*discoveryv1.EndpointSlice) Plan {
	wanted := desiredGroups(service, workloads)
	var plan Plan
	held := map[group][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		g := group{slice.AddressType, endpointsliceutil.NewPortMapKey(slice.Ports)}
		if _, ok := wanted[g]; !ok {
			plan.Delete = append(plan.Delete, slice)
			continue
		}
		held[g] = append(held[g], slice)
	}
	for _, g := range slices.SortedFunc(maps.Keys(wanted), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.portKey, b.portKey))
	}) {
		plan.pack(service, g, wanted[g], held[g])
	}
	plan.reuse()
	return plan
}

func desiredGroups(service *corev1.Service, workloads []*workloadv1beta1.ExternalWorkload) map[group]desired {
	wanted := map[group]desired{}
	for _, family := range familiesOf(service) {
		for _, ew := range workloads {
			addresses := addressesOf(ew, family)
			if len(addresses) == 0 || ew.DeletionTimestamp != nil {
				continue
			}
			ports := portsOf(service, ew)
			g := group{family, endpointsliceutil.NewPortMapKey(ports)}
			if _, ok := wanted[g]; !ok {
				wanted[g] = desired{ports: ports, endpoints: map[types.NamespacedName]discoveryv1.Endpoint{}}
			}
			wanted[g].endpoints[types.NamespacedName{Namespace: ew.Namespace, Name: ew.Name}] = endpointOf(service, ew, addresses)
		}
	}
	return wanted
}

// pack decides one group.
func (p *Plan) pack(service *corev1.Service, g group, want desired, existing []*discoveryv1.EndpointSlice) {
	remaining := maps.Clone(want.endpoints)
	var update, untouched []*discoveryv1.EndpointSlice
	for _, slice := range existing {
		kept := []discoveryv1.Endpoint{}
		changed := !sameMetadata(service, slice)
		for _, endpoint := range slice.Endpoints {
			key := targetOf(endpoint)
			now, ok := remaining[key]
			if !ok {
				changed = true
				continue
			}
			delete(remaining, key)
			kept = append(kept, now)
			changed = changed || !apiequality.Semantic.DeepEqual(endpoint, now)
		}
		switch {
		case len(kept) == 0:
			p.Delete = append(p.Delete, slice)
		case changed:
			update = append(update, withEndpoints(service, slice, kept))
		default:
			untouched = append(untouched, slice)
		}
	}
	rest := slices.SortedFunc(maps.Values(remaining), func(a, b discoveryv1.Endpoint) int {
		return cmp.Compare(a.TargetRef.Name, b.TargetRef.Name)
	})
	slices.SortStableFunc(update, func(a, b *discoveryv1.EndpointSlice) int { return len(b.Endpoints) - len(a.Endpoints) })
	for _, slice := range update {
		rest = fill(slice, rest)
	}
	if len(rest) > 0 && len(rest) < maxEndpoints {
		if i := closestToFull(untouched, len(rest)); i >= 0 {
			slice := withEndpoints(service, untouched[i], slices.Clone(untouched[i].Endpoints))
			rest = fill(slice, rest)
			update = append(update, slice)
		}
	}
	p.Update = append(p.Update, update...)
	for len(rest) > 0 {
		slice := newSlice(service, g.family, want.ports)
		rest = fill(slice, rest)
		p.Create = append(p.Create, slice)
	}
}

// fill moves endpoints into the slice until it is full and returns those left.
func fill(slice *discoveryv1.EndpointSlice, rest []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	n := min(maxEndpoints-len(slice.Endpoints), len(rest))
	slice.Endpoints = append(slice.Endpoints, rest[:n]...)
	return rest[n:]
}

// closestToFull finds the slice with room for n that has the least room left; -1 without one.
func closestToFull(candidates []*discoveryv1.EndpointSlice, n int) int {
	best := -1
	for i, slice := range candidates {
		if len(slice.Endpoints)+n <= maxEndpoints && (best < 0 || len(slice.Endpoints) > len(candidates[best].Endpoints)) {
			best = i
		}
	}
	return best
}

// reuse turns pairs of a deletion and a creation of one family into an update.
func (p *Plan) reuse() {
	var create []*discoveryv1.EndpointSlice
	for _, slice := range p.Create {
		i := slices.IndexFunc(p.Delete, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == slice.AddressType })
		if i < 0 {
			create = append(create, slice)
			continue
		}
		old := p.Delete[i].DeepCopy()
		old.Labels, old.OwnerReferences = slice.Labels, slice.OwnerReferences
		old.Ports, old.Endpoints = slice.Ports, slice.Endpoints
		p.Update = append(p.Update, old)
		p.Delete = slices.Delete(p.Delete, i, i+1)
	}
	p.Create = create
}

// targetOf is the workload behind an endpoint; zero for an endpoint that somebody else wrote.
func targetOf(endpoint discoveryv1.Endpoint) types.NamespacedName {
	if endpoint.TargetRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: endpoint.TargetRef.Namespace, Name: endpoint.TargetRef.Name}
}

func withEndpoints(service *corev1.Service, slice *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	slice = slice.DeepCopy()
	slice.Labels = labelsOf(service)
	slice.OwnerReferences = ownersOf(service)
	slice.Endpoints = endpoints
	return slice
}

func newSlice(service *corev1.Service, family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName:    linkerd.ExternalWorkloadSlicePrefix + service.Name + "-",
			Namespace:       service.Namespace,
			Labels:          labelsOf(service),
			OwnerReferences: ownersOf(service),
		},
		AddressType: family,
		Ports:       ports,
	}
}

func sameMetadata(service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return maps.Equal(labelsOf(service), slice.Labels) && apiequality.Semantic.DeepEqual(ownersOf(service), slice.OwnerReferences)
}

// labelsOf are the labels of a Service's slices: the Service's own, and those
// that say whose they are.
func labelsOf(service *corev1.Service) map[string]string {
	labels := map[string]string{}
	for name, value := range service.Labels {
		if name != corev1.IsHeadlessService {
			labels[name] = value
		}
	}
	labels[discoveryv1.LabelServiceName] = service.Name
	labels[discoveryv1.LabelManagedBy] = linkerd.ExternalWorkloadSliceManager
	if headless(service) {
		labels[corev1.IsHeadlessService] = ""
	}
	return labels
}

func ownersOf(service *corev1.Service) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))}
}
