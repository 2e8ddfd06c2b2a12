package destination

import (
	"bytes"
	"cmp"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// endpointKind is what an endpoint's targetRef refers to.
type endpointKind uint8

const (
	podEndpoint endpointKind = iota
	workloadEndpoint
	addressEndpoint
)

// identity tells the endpoints of one Service port apart, and recognises one
// that moves between slices (D section 1.7). Pods have one identity per
// address family, ExternalWorkloads one in all; an endpoint that refers to
// neither is its address with its hostname.
type identity struct {
	kind endpointKind
	// namespace and name are those of the pod or workload.
	namespace, name string
	family          discoveryv1.AddressType
	host, hostname  string
	port            uint32
}

func (id identity) compare(other identity) int {
	return cmp.Or(
		cmp.Compare(id.kind, other.kind),
		cmp.Compare(id.namespace, other.namespace),
		cmp.Compare(id.name, other.name),
		cmp.Compare(id.family, other.family),
		cmp.Compare(id.hostname, other.hostname),
	)
}

// setLabels are the metric labels of the slice that an endpoint is from (D
// section 1.13).
type setLabels struct {
	service, namespace             string
	mirrored                       bool
	targetCluster                  string
	mirroredService                bool
	targetService, targetNamespace string
}

// endpoint is one endpoint of a Service port. Immutable.
type endpoint struct {
	identity
	// addr is zero if the host is no IP address: nobody is told of such an
	// endpoint, but it counts (D section 1.12).
	addr netip.AddrPort
	host string

	// node is where a pod runs.
	node string
	// hostname is the instance's name, "" if it has none.
	hostname string
	// zone decides the locality; address-only endpoints have none.
	zone string
	// hints are the zones that the endpoint is meant for, sorted, each
	// followed by a newline; "" without hints.
	hints string
	// serverOpaque is set if a Server makes the port opaque.
	serverOpaque bool
	labels       *setLabels
	// weighted is the encoded WeightedAddr without what depends on the
	// client's zone; nil if the endpoint cannot be told to anybody.
	weighted []byte
}

func compareAddress(a, b *endpoint) int {
	if c := a.addr.Compare(b.addr); c != 0 {
		return c
	}
	if a.addr.IsValid() {
		return 0
	}
	return cmp.Compare(a.host, b.host)
}

// compareEndpoints orders by address, so that snapshots can be merged. Of two
// endpoints with one address, one that can be told to clients comes first.
func compareEndpoints(a, b *endpoint) int {
	if c := cmp.Or(compareAddress(a, b), compareBools(a.weighted == nil, b.weighted == nil)); c != 0 {
		return c
	}
	return a.identity.compare(b.identity)
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hinted tells whether the endpoint is meant for clients of the zone.
func (e *endpoint) hinted(zone string) bool {
	hints := e.hints
	for hints != "" {
		var hint string
		hint, hints, _ = strings.Cut(hints, "\n")
		if hint == zone {
			return true
		}
	}
	return false
}

// locality is how an endpoint's zone relates to the client's (D53).
type locality uint8

const (
	localityUnknown locality = iota
	localityLocal
	localityRemote
	localities
)

func (l locality) String() string { return [...]string{"unknown", "local", "remote"}[l] }

// seenFrom returns the endpoint's locality for clients of the zone.
func (e *endpoint) seenFrom(zone string) locality {
	switch {
	case e.zone == "" || zone == "":
		return localityUnknown
	case e.zone == zone:
		return localityLocal
	}
	return localityRemote
}

// same tells whether a client that was told a, when in zone from, has nothing
// to learn from b, when in zone to. Hints and the effect of Servers count even
// where they do not show (D section 1.11, D37).
func same(a, b *endpoint, from, to string) bool {
	if a.seenFrom(from) != b.seenFrom(to) {
		return false
	}
	return a == b || a.serverOpaque == b.serverOpaque && a.hints == b.hints &&
		*a.labels == *b.labels && bytes.Equal(a.weighted, b.weighted)
}

// equal tells whether both are the same endpoint in all respects.
func (e *endpoint) equal(other *endpoint) bool {
	return e.identity == other.identity && e.addr == other.addr && e.host == other.host &&
		e.node == other.node && e.hostname == other.hostname && e.zone == other.zone &&
		(e.weighted == nil) == (other.weighted == nil) && same(e, other, "", "")
}
