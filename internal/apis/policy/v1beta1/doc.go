// Package v1beta1 holds the Go types of policy.linkerd.io/v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=policy.linkerd.io
package v1beta1
