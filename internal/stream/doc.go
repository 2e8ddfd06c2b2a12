// Package stream sends what a client follows: everything at first, then what
// changes, until one of both goes.
package stream
