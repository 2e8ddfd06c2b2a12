// Package apis holds the Go types of Linkerd's custom resources, one package per group and version.
//
// Versions that nothing here decodes are among them, as a definition is made of all versions of a kind at once. What a
// kind looks like is written out anew in each version where anything differs, markers included: a published version
// stays as it is, whatever becomes of the next one.
package apis

//go:generate go tool -modfile=../tools/go.mod controller-gen object paths=./...
