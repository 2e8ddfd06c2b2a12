// Package checks judges objects as the validating webhooks of a cluster with
// Linkerd do, for all who have one in hand: the webhooks themselves, and the
// manifests of a directory before they are sent.
package checks
