package source

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Source is a file, or a kustomization with all it uses, as last read. It is an
// immutable value.
type Source struct {
	// Path is absolute, Shown as the user would write it. The Path of a
	// kustomization is that of its file.
	Path, Shown string
	// Objects are those of the last content without faults.
	Objects []Object
	// Faults are those of the newest content.
	Faults []problems.Problem
	// Changed is when the newest content was first seen; what was there before the
	// first scan counts from its modification time.
	Changed time.Time
	// broken is the text that has Faults.
	broken []byte
	// Alien says that the Faults are those of a file that is something else than a manifest,
	// and was never one.
	Alien bool
	sum   [sha256.Size]byte
}

// New is the source of one content, which has no file to be read again from.
func New(path, shown string, data []byte) *Source {
	s := &Source{Path: path, Shown: shown}
	if s.Objects, s.Faults, _ = Parse(shown, data, nil); len(s.Faults) > 0 {
		s.broken = data
	}
	return s
}

// FieldLine is the line of a field of the object that begins on line, or line itself.
// The file is read again for it, and must still be what it was.
func (s *Source) FieldLine(line int, field string) int {
	if line == 0 || field == "" {
		return line
	}
	data, _, err := readLimited(s.Path)
	if err != nil || sha256.Sum256(data) != s.sum {
		return line
	}
	return locate(data, line, field)
}

// Mentions reports whether text that cannot be read has the word name in it.
func (s *Source) Mentions(name string) bool { return bytes.Contains(s.broken, []byte(name)) }

// sameContent keeps the time of the last change when a build gave the same.
func sameContent(a, b *Source) bool {
	return slices.EqualFunc(a.Objects, b.Objects, func(x, y Object) bool { return x.Hash == y.Hash }) &&
		slices.Equal(a.Faults, b.Faults)
}
