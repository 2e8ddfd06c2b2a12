// Package apis holds the Go types of Linkerd's custom resources, one package per group and version.
package apis

//go:generate go run -C ../tools sigs.k8s.io/controller-tools/cmd/controller-gen object paths=../apis/...
