// Package v1alpha2 holds the Go types of linkerd.io/v1alpha2.
//
// +kubebuilder:object:generate=true
// +groupName=linkerd.io
package v1alpha2
