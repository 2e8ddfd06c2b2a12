// Package v1beta3 holds the Go types of policy.linkerd.io/v1beta3.
//
// +kubebuilder:object:generate=true
// +groupName=policy.linkerd.io
package v1beta3
