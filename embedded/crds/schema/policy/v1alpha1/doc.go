// Package v1alpha1 describes the schema of policy.linkerd.io/v1alpha1 HTTPRoutes.
//
// +groupName=policy.linkerd.io
package v1alpha1
