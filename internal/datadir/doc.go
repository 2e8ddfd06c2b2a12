// Package datadir owns the directory in which an instance keeps its data: its
// lock, its format version, and the way back to it from another process.
package datadir
