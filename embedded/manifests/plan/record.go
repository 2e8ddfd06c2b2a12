package plan

import "github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"

// Record is an object that was applied, or may have been. It is an immutable
// value.
type Record struct {
	source.Key
	Version string `json:"version"`
	// File is the absolute path of the source that the object came from.
	File string `json:"file"`
	// Hash is of the object as applied; empty while it is not known to be.
	Hash string `json:"hash,omitempty"`
	// Fields is a hash of the fields that we own in the object; it tells drift.
	Fields string `json:"fields,omitempty"`
	// HasStatus is set if a status was applied.
	HasStatus bool `json:"hasStatus,omitempty"`
}
