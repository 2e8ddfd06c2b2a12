// Package logs keeps what is written while a test reads it.
package logs

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Buffer is for a logger and a test at once. Its zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Lines returns the lines that contain all the texts.
func (b *Buffer) Lines(texts ...string) []string {
	var found []string
	for line := range strings.Lines(b.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}
