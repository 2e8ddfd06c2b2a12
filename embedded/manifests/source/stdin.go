package source

import (
	"fmt"
	"io"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// stdin is the name of a DIR that stands for the standard input.
const stdin = "-"

// StdinShown is how messages call the standard input.
const StdinShown = "standard input"

// readStdin reads the standard input once, if it is among the roots. It returns nil if not.
func (s *Scanner) readStdin() (source *Source, saved bool) {
	if s.stdin == nil || s.piped != nil {
		return s.piped, false
	}
	shown := StdinShown
	s.reading.Store(&shown)
	data, err := io.ReadAll(io.LimitReader(s.stdin, maxFile+1))
	switch {
	case err != nil:
		s.piped = &Source{Path: stdin, Shown: StdinShown, Faults: []problems.Problem{{File: StdinShown, Message: reason(err)}}}
	case len(data) > maxFile:
		s.piped = &Source{Path: stdin, Shown: StdinShown, Faults: []problems.Problem{{File: StdinShown, Message: fmt.Sprintf("more than %d MB: write it to files", maxFile>>20)}}}
	default:
		s.piped = New(stdin, StdinShown, data)
	}
	s.piped.Changed = s.now()
	return s.piped, true
}
