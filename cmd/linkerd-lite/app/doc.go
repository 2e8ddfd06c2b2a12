// Package app holds the commands of linkerd-lite.
//
// wiring.go is the one place where the whole program is visible: which parts
// there are, what each is given, and what it waits for.
package app
