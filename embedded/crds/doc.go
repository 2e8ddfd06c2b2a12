// Package crds holds the custom resource definitions that Linkerd installs, and keeps them in an API server.
package crds

//go:generate go run ./generate
