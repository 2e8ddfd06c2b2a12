// Package gateway checks routes for what their Go types take although Linkerd 2.20 cannot decode it.
package gateway
