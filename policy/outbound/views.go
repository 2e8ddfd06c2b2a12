package outbound

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// scopedTarget is a target as clients of one namespace see it.
type scopedTarget struct {
	target
	namespace string
}

// consumerKey names a parent with the namespace of routes for it that is not its own.
type consumerKey struct {
	gateway.Reference
	from string
}

// lookup is an address that clients of one namespace connect to.
type lookup struct {
	ip        netip.Addr
	namespace string
}

// resolution is what an address stands for: a Service, an EgressNetwork or,
// with the zero key, neither.
type resolution struct {
	gateway.Reference
}

// policyAnswer is a policy with all the routes that are attached to its target.
// One that has no place in the policy, such as a second TCPRoute, changes the
// answer although not its bytes: as with Linkerd's controller, who waits for a
// route to be seen is told of it (policy-outbound 2, G3).
type policyAnswer struct {
	*grpcserver.Encoded
	attached string
}

func (a policyAnswer) equal(other policyAnswer) bool {
	return a.attached == other.attached && a.Encoded.Equal(other.Encoded)
}

// views are the families of views.
//
//  1. consumers are all routes for parents in other namespaces. There are few,
//     so one view of all is cheaper than one for each namespace with clients.
//  2. shared are the answers to all clients whose namespace has no such routes
//     for the target. This is nearly everyone, and all of them share the bytes.
//  3. scoped are the answers to clients of one namespace; where that has no
//     routes of its own, it is the shared answer.
//  4. networks are the EgressNetworks of a namespace, and resolutions what
//     addresses stand for. They come last, so that an answer that changes
//     together with what its address stands for is there before its streams end.
type views struct {
	index           *index
	clusterDomain   string
	egressNamespace string
	allowL5dHeaders bool

	consumers   *view.Set[struct{}, map[consumerKey][]*gateway.Route]
	shared      *view.Set[target, policyAnswer]
	scoped      *view.Set[scopedTarget, policyAnswer]
	networks    *view.Set[string, []*parent]
	resolutions *view.Set[lookup, resolution]
}

func newViews(graph *view.Graph, ix *index, config Config) *views {
	v := &views{
		index: ix, clusterDomain: config.ClusterDomain, egressNamespace: config.GlobalEgressNetworkNamespace, allowL5dHeaders: config.AllowL5dRequestHeaders,
	}
	v.consumers = view.NewSet(graph, "outbound/consumers", v.findConsumers, func(a, b map[consumerKey][]*gateway.Route) bool { return len(a)+len(b) == 0 })
	v.shared = view.NewSet(graph, "outbound/answers", v.answerAll, policyAnswer.equal)
	v.scoped = view.NewSet(graph, "outbound/scoped-answers", v.answerNamespace, policyAnswer.equal)
	v.networks = view.NewSet(graph, "outbound/networks", v.findNetworks, func(a, b []*parent) bool { return len(a)+len(b) == 0 })
	v.resolutions = view.NewSet(graph, "outbound/resolutions", v.resolve, same[resolution])
	return v
}

func same[V comparable](a, b V) bool { return a == b }

// held returns how many views are held: none once no stream is open (B19).
func (v *views) held() int {
	return v.consumers.Held() + v.shared.Held() + v.scoped.Held() + v.networks.Held() + v.resolutions.Held()
}

// acquire returns the view that clients of a namespace have of a target. Those
// of the target's own namespace cannot have routes from elsewhere.
func (v *views) acquire(key target, namespace string) answer {
	if key.isFallback() || key.Namespace == namespace {
		return v.shared.Acquire(key)
	}
	return v.scoped.Acquire(scopedTarget{key, namespace})
}

func (v *views) findConsumers(r *view.Reader, _ struct{}, _ *map[consumerKey][]*gateway.Route) map[consumerKey][]*gateway.Route {
	var found map[consumerKey][]*gateway.Route
	for _, kind := range v.index.routes.All() {
		for consumer := range state.By(r.Reader, kind, gateway.Consumers, gateway.ConsumersKey) {
			if found == nil {
				found = map[consumerKey][]*gateway.Route{}
			}
			for _, a := range consumer.Outbound.Attached {
				key := consumerKey{a.Reference, consumer.GetNamespace()}
				// A route names a parent once for each port.
				if list := found[key]; a.Namespace != key.from && !slices.Contains(list, consumer) {
					found[key] = append(list, consumer)
				}
			}
		}
	}
	return found
}

func (v *views) answerAll(r *view.Reader, key target, previous *policyAnswer) policyAnswer {
	return v.answer(r, key, nil, previous)
}

func (v *views) answerNamespace(r *view.Reader, key scopedTarget, previous *policyAnswer) policyAnswer {
	own := view.Use(r, v.consumers, struct{}{})[consumerKey{key.Reference, key.namespace}]
	if len(own) == 0 {
		return view.Use(r, v.shared, key.target)
	}
	return v.answer(r, key.target, own, previous)
}

// answer builds the policy of a target from what is attached to it and the
// routes of the client's namespace. Equal bytes are those of the previous value.
func (v *views) answer(r *view.Reader, key target, consumers []*gateway.Route, previous *policyAnswer) policyAnswer {
	b := builder{clusterDomain: v.clusterDomain, allowL5dHeaders: v.allowL5dHeaders, target: key}
	if !key.isFallback() {
		b.parent = v.index.parent(r.Reader, key.Reference)
		if b.parent == nil && key.egress() && previous != nil {
			// Streams of an EgressNetwork that is gone end, and say nothing more (P151).
			return *previous
		}
		b.exists = func(key gateway.Reference) bool { return v.index.parent(r.Reader, key) != nil }
		for _, kind := range v.index.routes.All() {
			for route := range state.By(r.Reader, kind, gateway.Producers, key.Reference.String()) {
				b.add(route)
			}
		}
		for _, route := range consumers {
			b.add(route)
		}
	}
	encoded, err := grpcserver.Encode(b.build())
	if err != nil {
		// Only text that is no UTF-8 does not encode, and the State holds none (its function readable).
		panic(fmt.Sprintf("outbound policy of %v: %v", key, err))
	}
	out := policyAnswer{encoded, b.attached()}
	if previous != nil && previous.Encoded.Equal(encoded) {
		out.Encoded = previous.Encoded
	}
	return out
}

func (v *views) findNetworks(r *view.Reader, namespace string, _ *[]*parent) []*parent {
	var found []*parent
	for network := range state.List(r.Reader, v.index.egressNetworks, namespace) {
		found = append(found, network)
	}
	return found
}

// resolve looks an address up (policy-outbound 1.1). The networks of the
// client's namespace replace the global ones even if none of them matches (P158).
func (v *views) resolve(r *view.Reader, key lookup, _ *resolution) resolution {
	var service *parent
	for candidate := range state.By(r.Reader, v.index.services, parentsByIP, key.ip.String()) {
		if service == nil || older(candidate, service) < 0 {
			service = candidate
		}
	}
	if service != nil {
		return resolution{gateway.Reference{Kind: gateway.Service, Namespace: service.GetNamespace(), Name: service.GetName()}}
	}
	networks := view.Use(r, v.networks, key.namespace)
	if len(networks) == 0 && key.namespace != v.egressNamespace {
		networks = view.Use(r, v.networks, v.egressNamespace)
	}
	if network := mostSpecific(networks, key.ip); network != nil {
		return resolution{gateway.Reference{Kind: gateway.EgressNetwork, Namespace: network.GetNamespace(), Name: network.GetName()}}
	}
	return resolution{}
}
