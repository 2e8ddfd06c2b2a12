// Package problems keeps what is wrong with the objects and files of others:
// which object, which field, what is used instead, since when.
//
// Whoever judges something, a decoder, a view, a writer, the reader of
// manifests, is a source. It tells the [Table] everything that it finds wrong
// with one subject at a time, and in doing so replaces what it said of that
// subject before. So it keeps no memory of its own: saying the same again
// changes nothing, and a problem that is no longer said is mended.
//
// The log, /ready, /metrics and the commands read the table.
package problems
