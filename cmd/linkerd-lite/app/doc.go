// Package app holds the commands of linkerd-lite: their flags, what they print
// and their exit codes. What they run is package embedded.
package app
