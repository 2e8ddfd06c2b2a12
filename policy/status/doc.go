// Package status writes the conditions of routes, EgressNetworks and rate
// limits, which other parts of the policy controller wait for.
//
// What a status should be is a pure function of a snapshot (desired.go); the
// writer (writer.go) compares it with what is stored and patches where they
// differ, while it holds a Lease.
package status
