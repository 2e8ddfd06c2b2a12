package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// ownModule begins the names of this program's functions.
const ownModule = "github.com/linkerd-lite/linkerd-lite/"

// TakeProcess turns the ways in which Kubernetes' code ends a process into failures and problems of this cluster.
// These hooks are process-wide and stay: only a command that runs one cluster sets them.
//
//   - What ends it on purpose fails the cluster with the line that it logged last.
//   - A panic of a controller, say about an object that no API server would have let in, becomes a
//     problem: the object is left as it is, and the controller goes on a second later.
//   - A panic of this program's own code, where Kubernetes' code calls it, fails the cluster.
func (c *Cluster) TakeProcess(lastLine func() string) {
	klog.OsExit = func(int) {
		c.Fail("kubernetes", errors.New(strings.TrimSpace(lastLine())))
		// Its caller counts on not getting on.
		runtime.Goexit()
	}
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, value any) {
		if value == http.ErrAbortHandler {
			return // how a handler ends whose client has gone
		}
		function, places := panicking()
		if strings.HasPrefix(function, ownModule) {
			c.Fail("kubernetes", &lifecycle.PanicError{Goroutine: function, Value: value, Stack: debug.Stack()})
			return
		}
		c.problems.Say("kubernetes", function, problems.Problem{
			Severity: problems.Warning,
			Message:  fmt.Sprintf("Kubernetes' code panicked: %v (at %s)", value, strings.Join(places, ", ")),
			Instead:  "what it was looking at is left as it is, and it goes on with the rest",
		})
	})
}

// panicking is the function whose panic is being handled, and the innermost places that led there, "FILE:LINE".
func panicking() (function string, places []string) {
	const depth = 4
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	met := false
	for more := true; more && len(places) < depth; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if frame.Function == "runtime.gopanic" {
			met, function, places = true, "", nil
		}
		if met && !strings.HasPrefix(frame.Function, "runtime.") {
			function = cmp.Or(function, frame.Function)
			places = append(places, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
	}
	return function, places
}
