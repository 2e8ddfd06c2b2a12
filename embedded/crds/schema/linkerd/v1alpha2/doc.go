// Package v1alpha2 describes the schema of linkerd.io/v1alpha2 ServiceProfiles.
//
// +groupName=linkerd.io
package v1alpha2
