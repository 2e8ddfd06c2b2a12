// Package linkerd names the things that Linkerd 2.20 and its users agree on:
// labels, annotations, identities, ports, defaults, and the small grammars
// in which they are written.
package linkerd
