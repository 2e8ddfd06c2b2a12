// Package v1alpha1 describes the schema of linkerd.io/v1alpha1 ServiceProfiles.
//
// +groupName=linkerd.io
package v1alpha1
