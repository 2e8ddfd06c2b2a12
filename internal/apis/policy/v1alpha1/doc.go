// Package v1alpha1 holds the Go types of policy.linkerd.io/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=policy.linkerd.io
package v1alpha1
