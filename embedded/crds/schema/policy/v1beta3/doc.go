// Package v1beta3 describes the schema of policy.linkerd.io/v1beta3 HTTPRoutes.
//
// +groupName=policy.linkerd.io
package v1beta3
