// Package v1beta2 holds the Go types of policy.linkerd.io/v1beta2.
//
// +kubebuilder:object:generate=true
// +groupName=policy.linkerd.io
package v1beta2
