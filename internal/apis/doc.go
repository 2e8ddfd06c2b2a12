// Package apis holds the Go types of Linkerd's custom resources, one package per group and version.
package apis

//go:generate go tool -modfile=../tools/go.mod controller-gen object paths=./...
