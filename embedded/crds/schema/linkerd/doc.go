// Package linkerd describes the schema of linkerd.io ServiceProfiles, from which the generator makes their custom
// resource definition. It knows one level of conditions; the Go types that read profiles know all.
//
// +kubebuilder:object:generate=false
package linkerd
