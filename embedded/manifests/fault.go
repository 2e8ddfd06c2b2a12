package manifests

import (
	"cmp"
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a manifest. It is an immutable value.
type Fault struct {
	// File is the path as the user named it, or empty.
	File string `json:"file,omitempty"`
	// Line counts from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	// Object is "Kind namespace/name", or empty if the fault is the file's.
	Object string `json:"object,omitempty"`
	// Message says what is wrong, in one line.
	Message string `json:"message"`
}

// Error is "file:line: object: message".
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Object != "" {
		b.WriteString(f.Object)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

func compareFaults(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
}

// oneLine folds a message of several lines, as parsers and the API server write
// them, into one.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
