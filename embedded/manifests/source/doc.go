// Package source reads directories of manifests: files become objects, with the lines
// they were written on, and faults.
//
// A [Scanner] lists the directories and reads what has changed since it did so last. What it
// returns, a [Snapshot], is a value: the last good state of each file, the faults of
// its newest one, and what must be known before anything that is missing is
// deleted. Nothing here knows a cluster.
package source
