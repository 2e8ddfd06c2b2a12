package problems

import (
	"cmp"
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
	// Function is the innermost function that is not the language's own, with its package.
	Function string
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

// Recovered is the Fault of what recover has returned, nil if that is nil. It is called
// while the panic is being handled. Catch is simpler, and takes
// more of the stack, which matters where many goroutines run their functions.
func Recovered(value any) *Fault {
	if value == nil {
		return nil
	}
	var earlier *Fault
	if err, ok := value.(error); ok && errors.As(err, &earlier) {
		return earlier
	}
	fault := &Fault{Value: value}
	fault.locate()
	return fault
}

// traceDepth is how many places a Fault names.
const traceDepth = 4

// locate finds out where the panic came from that is being handled. Of one that was
// passed on by panicking again it is the first.
func (f *Fault) locate() {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	met := false
	for more := true; more && len(f.Trace) < traceDepth; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if frame.Function == "runtime.gopanic" {
			met, f.Function, f.Trace = true, "", nil
		}
		if met && !strings.HasPrefix(frame.Function, "runtime.") && frame.File != "" {
			f.Function = cmp.Or(f.Function, frame.Function)
			f.Trace = append(f.Trace, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
	}
}
