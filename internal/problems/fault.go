package problems

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
)

// Fault is a panic in a function of ours that met an object of others. It is
// our fault, and concerns that object alone.
type Fault struct {
	// Value is what the function panicked with.
	Value any
	// Trace is the innermost places of the program, "FILE:LINE", innermost first.
	Trace []string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("a fault of linkerd-lite, please report it: %v (at %s)", f.Value, strings.Join(f.Trace, ", "))
}

// Catch runs f and returns the Fault if it panics, else nil. What f had in
// hand then must not be used.
func Catch(f func()) (fault *Fault) {
	defer func() { fault = Recovered(recover()) }()
	f()
	return nil
}

// Recovered is the Fault of what recover has returned, nil if that is nil. The
// deferred function that calls recover calls it too. Catch is simpler, and takes
// more of the stack, which matters where many goroutines run their functions.
func Recovered(value any) *Fault {
	if value == nil {
		return nil
	}
	var earlier *Fault
	if err, ok := value.(error); ok && errors.As(err, &earlier) {
		return earlier
	}
	return &Fault{Value: value, Trace: trace()}
}

// traceDepth is how many places a Fault names.
const traceDepth = 4

// trace returns where the panic came from that is being recovered.
func trace() []string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var places []string
	for len(places) < traceDepth {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") && frame.File != "" {
			places = append(places, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
		if !more {
			break
		}
	}
	return places
}
