package source

import (
	"cmp"
	"strconv"
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
	if where := f.Where(); where != "" {
		return where + ": " + f.Message
	}
	return f.Message
}

// Where is "file:line: object", as far as they are known.
func (f Fault) Where() string {
	file := f.File
	if file != "" && f.Line > 0 {
		file += ":" + strconv.Itoa(f.Line)
	}
	if file != "" && f.Object != "" {
		return file + ": " + f.Object
	}
	return file + f.Object
}

// CompareFaults orders faults by place.
func CompareFaults(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
}

// OneLine folds a message of several lines, as parsers and the API server write
// them, into one.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
