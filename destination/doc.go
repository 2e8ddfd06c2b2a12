// Package destination answers Destination.Get and Destination.GetProfile: where
// a Service's endpoints are, and how to speak to them.
//
// The way of an answer: slices, pods and the like become the endpoints of one
// Service port (translate), of which a client sees those that its hostname,
// node and zone leave (filter); one such snapshot and its encoded messages are
// shared by all clients that see the same; a stream is one goroutine with a
// cursor into a sequence of snapshots.
//
// Here lives: the rules of answers. Not here: how objects are fetched
// (internal/state), when views are recomputed (internal/view), and the writing
// of EndpointSlices for ExternalWorkloads (extworkloads).
package destination
