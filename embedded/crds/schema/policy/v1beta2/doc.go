// Package v1beta2 describes the schema of policy.linkerd.io/v1beta2 HTTPRoutes.
//
// +groupName=policy.linkerd.io
package v1beta2
