// Package inbound tells proxies who may reach which port of a workload, as the
// InboundServerPolicies service.
//
// Objects are converted once, when they arrive, into derived kinds (index.go);
// an object that cannot be used keeps its last usable form. Four families of
// views build on these: the policy of a Server (serverpolicy.go), the Servers
// of a workload's ports (placement.go), the answers, which all ports with the
// same policy share, and the answer of each port (answer.go).
package inbound
