// Package embedded is a cluster in this process that runs Linkerd: New puts it
// together from its parts, Run runs it, and several can live side by side.
//
// wiring.go shows the whole: which parts there are, what each is given, and
// what it waits for. controlplane.go is the control plane alone, which also
// runs against an API server that is already there.
package embedded
