// Package terminal writes for people: a screen whose last lines change in place,
// and an output that tells when nobody reads it any more.
package terminal
