// Package state holds what the control plane knows about the cluster, as
// immutable snapshots.
//
// Reflectors (one per kind for the whole process) write decoded, trimmed
// objects into typed tables; readers take a [Snapshot] of all tables at once
// and never lock. A [Reader] is a snapshot that also remembers what was read
// through it, so that whoever computed something from it can be told when
// that something may have changed.
//
// Here lives: the kinds, their indexes, trimming, reflectors, change
// notification. Not here: any opinion about what the objects mean.
package state
