// Package dns answers DNS for pods, from the State.
//
// What is below the cluster domain is answered as the DNS specification of
// Kubernetes, version 1.1.0, has it, and in the ways of CoreDNS where that leaves
// a choice: an answer is a function of a snapshot and a question. Addresses that
// are no Service's, and all other names, are asked of the resolvers of this
// machine's user.
//
// Here lives: names, records, forwarding. Not here: who listens where, and the
// resolv.conf of pods.
package dns
