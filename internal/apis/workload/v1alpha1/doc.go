// Package v1alpha1 holds the Go types of workload.linkerd.io/v1alpha1.
//
// +kubebuilder:object:generate=true
// +groupName=workload.linkerd.io
package v1alpha1
