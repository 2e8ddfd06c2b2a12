package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
		fault := problems.Recovered(value)
		if strings.HasPrefix(fault.Function, ownModule) {
			c.Fail("kubernetes", &lifecycle.PanicError{Goroutine: fault.Function, Value: value, Stack: debug.Stack()})
			return
		}
		c.problems.Say("kubernetes", fault.Function, problems.Problem{
			Severity: problems.Warning,
			Message:  fmt.Sprintf("Kubernetes' code panicked: %v (at %s)", value, strings.Join(fault.Trace, ", ")),
			Instead:  "what it was looking at is left as it is, and it goes on with the rest",
		})
	})
}
