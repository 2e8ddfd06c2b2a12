// Package proxyshim is the proxy in front of the control plane: it decides by
// the first bytes of a connection whether it is mutual TLS of the mesh or
// plaintext from this machine, and counts what passes as a Linkerd proxy does.
//
// Here lives: detection, TLS termination, the direct path with its transport
// header, golden metrics. Not here: what the services answer.
package proxyshim
