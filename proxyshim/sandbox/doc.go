// Package sandbox runs a command in a network of its own in which Linkerd
// proxies work, without privileges: every address of the pod and service
// ranges is local, and connections are tracked.
package sandbox
