// Package policy holds the fragments that the versions of the policy.linkerd.io kinds share.
//
// +kubebuilder:object:generate=true
package policy
