// Package v1beta1 holds the Go types of workload.linkerd.io/v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=workload.linkerd.io
package v1beta1
