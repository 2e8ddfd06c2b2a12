// Package outbound tells proxies how to send traffic to a Service or out of the
// cluster, as the OutboundPolicies service.
//
// Objects are converted once, when they arrive, into derived kinds (index.go):
// Services and EgressNetworks into parents, routes of five kinds into one
// form. An object that cannot be used keeps its last usable form. Three
// families of views build on these (views.go): the answers to clients without
// routes of their own, those to clients of namespaces that have some, and
// what an address stands for.
package outbound
