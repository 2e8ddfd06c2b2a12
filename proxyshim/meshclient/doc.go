// Package meshclient is a client of the mesh in Go: on the wire it does what a
// proxy does to reach the control plane.
package meshclient
