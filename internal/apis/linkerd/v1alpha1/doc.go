// Package v1alpha1 holds the Go types of linkerd.io/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=linkerd.io
package v1alpha1
