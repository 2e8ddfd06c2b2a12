// Package inbound tells proxies who may reach which port of a workload, as the
// InboundServerPolicies service.
//
// Objects are converted once, when they arrive, into derived kinds (index.go);
// an object that cannot be used keeps its last usable form. Families of
// views build on these: the Servers of a workload's ports (placement.go), and
// the answers (answer.go), which all ports with the same policy share, and which
// share what a policy allows that refers to others (serverpolicy.go). A call
// holds one view of a placement and one of an answer (port.go).
package inbound
