// Package v1beta1 describes the schema of policy.linkerd.io/v1beta1 HTTPRoutes.
//
// +groupName=policy.linkerd.io
package v1beta1
