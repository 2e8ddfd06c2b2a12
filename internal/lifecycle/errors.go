package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// PartError is the failure of one part.
type PartError struct {
	Part string
	Err  error
}

func (e *PartError) Error() string { return e.Part + ": " + e.Err.Error() }

// Unwrap returns the part's own error.
func (e *PartError) Unwrap() error { return e.Err }

// StopTimeoutError says which parts had not ended at the stop deadline.
type StopTimeoutError struct {
	Parts   []string
	Timeout time.Duration
}

func (e *StopTimeoutError) Error() string {
	return fmt.Sprintf("did not stop within %v: %s", e.Timeout, strings.Join(e.Parts, ", "))
}

var (
	errEndedEarly = errors.New("ended by itself")
	errGoexit     = errors.New("its goroutine was ended")
	errNotReady   = errors.New("ended before it was ready")
)
