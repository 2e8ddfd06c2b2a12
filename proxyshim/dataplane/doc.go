// Package dataplane is a stand-in for linkerd2-proxy: beside an application whose
// connections are redirected to it, it takes and makes them as the control plane
// says, by mutual TLS to its peers.
//
// It is set up by the environment of a proxy container. What the messages of the
// control plane mean is package verdict's; how HTTP is spoken net/http's.
//
// Of linkerd2-proxy it does:
//
//   - identity with renewal, direct connections with a transport header, HTTP/1
//     carried in HTTP/2 between proxies;
//   - outbound: OutboundPolicies.Watch and GetProfile for each original
//     destination. A ServiceProfile that has a name and routes or overrides comes
//     before HTTP routes; one without them decides only whether bytes are opaque,
//     and where to go if policy does not know the destination. Peak EWMA balancers
//     draw two of the endpoints, whose weights are ignored; routes of HTTP, gRPC,
//     TLS and bytes with their filters, weights, timeouts, retries and circuit
//     breakers;
//   - inbound: WatchPort for each port, authorization by network and identity,
//     routes, local rate limits;
//   - the metrics and the admin address as far as there is something to say.
//
// It does not: tap, tracing, access logs, gateways (incoming requests for another
// name), SRV records, SPIRE, policy on its own admin port, per-request l5d-* limits
// of applications, and retries by gRPC statuses that come after a body.
package dataplane
