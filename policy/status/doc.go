// Package status writes the conditions of routes, EgressNetworks and rate
// limits, which other parts of the policy controller wait for.
//
// What a status should be is a view (desired.go, plan.go); the loop of package
// reconcile patches where it is not what is stored (patch.go).
package status
