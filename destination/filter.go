package destination

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// clientKey is what a client's view of a Service port depends on. Clients with
// equal keys share everything. A field that has no effect is left empty: node
// unless traffic is to stay on the node, zone unless an endpoint has a zone or
// hints; see cursor.
type clientKey struct {
	portKey
	hostname, node, zone string
}

// filter computes what clients of a key see.
func (v *clusterViews) filter(r *view.Reader, key clientKey, previous **published) *published {
	all := view.Use(r, v.ports, key.portKey)
	next := &published{snapshot: &snapshot{
		exists:   all.exists,
		local:    all.local && !v.remote,
		zoned:    all.zoned,
		zone:     key.zone,
		suffixes: &v.suffixes,
		list:     v.visible(all, key),
	}}
	if previous == nil {
		return next
	}
	before := *previous
	if next.exists == before.exists && next.local == before.local && next.zoned == before.zoned && slices.Equal(next.list, before.list) {
		return before
	}
	// Nearly all clients have the version before.
	next.updates = map[*snapshot]*update{before.snapshot: next.compute(before.snapshot)}
	return next
}

// visible runs the filter pipeline (D section 1.10). Its result is in order of
// address, with one endpoint per address.
func (v *clusterViews) visible(all *endpoints, key clientKey) []*endpoint {
	list := all.list
	if key.hostname != "" {
		list = keep(list, func(e *endpoint) bool { return e.hostname == key.hostname })
	}
	switch {
	case v.remote:
	case all.local:
		list = keep(list, func(e *endpoint) bool { return e.kind == podEndpoint && e.node == key.node })
	default:
		list = hintedFor(list, key.zone)
	}
	return oneByAddress(v.family(list, all.dual))
}

// oneByAddress keeps the first endpoint of each address: two Pods of one
// address are one to a client, and stay so when either goes.
func oneByAddress(list []*endpoint) []*endpoint {
	var last *endpoint
	return keep(list, func(e *endpoint) bool {
		first := last == nil || compareAddress(last, e) != 0
		last = e
		return first
	})
}

// hintedFor keeps what is meant for the zone, or everything if some endpoint
// has no hints or nothing is meant for the zone (D45-D48, B14).
func hintedFor(list []*endpoint, zone string) []*endpoint {
	if zone == "" || slices.ContainsFunc(list, func(e *endpoint) bool { return e.hints == "" }) {
		return list
	}
	if hinted := keep(list, func(e *endpoint) bool { return e.hinted(zone) }); len(hinted) > 0 {
		return hinted
	}
	return list
}

// family keeps one address family of each pod: IPv4 if IPv6 is off, else IPv6
// where it has survived the steps before (D38-D44).
func (v *clusterViews) family(list []*endpoint, dual bool) []*endpoint {
	if !v.ipv6 {
		return keep(list, func(e *endpoint) bool { return e.family != discoveryv1.AddressTypeIPv6 })
	}
	if !dual {
		return list
	}
	type pod struct{ namespace, name string }
	six := map[pod]bool{}
	for _, e := range list {
		if e.family == discoveryv1.AddressTypeIPv6 {
			six[pod{e.namespace, e.name}] = true
		}
	}
	return keep(list, func(e *endpoint) bool {
		return e.family != discoveryv1.AddressTypeIPv4 || !six[pod{e.namespace, e.name}]
	})
}

// keep returns the endpoints for which want holds; the list itself, if it
// holds for all.
func keep(list []*endpoint, want func(*endpoint) bool) []*endpoint {
	drop := slices.IndexFunc(list, func(e *endpoint) bool { return !want(e) })
	if drop < 0 {
		return list
	}
	kept := append([]*endpoint(nil), list[:drop]...)
	for _, e := range list[drop+1:] {
		if want(e) {
			kept = append(kept, e)
		}
	}
	return kept
}
