package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// part is a part that has been added: what later ones wait for. The zero value
// is a part that this cluster does not have; nobody waits for it.
type part struct{ name string }

// partList collects parts. Whoever waits for a part has its handle, so it
// cannot wait for one that is not there, or in a circle.
type partList struct {
	parts []lifecycle.Part
	wings []wing
}

// wing is a group of parts that belong together, for people who watch a start.
type wing struct {
	name  string
	parts []string
	// after has what each part waits for.
	after map[string][]string
}

// begin begins the wing of the parts that are added from now on.
func (l *partList) begin(name string) {
	l.wings = append(l.wings, wing{name: name, after: map[string][]string{}})
}

type runFunc = func(ctx context.Context, ready func()) error

// add adds a part that runs until it is stopped, and starts when those in after are ready.
func (l *partList) add(name string, run runFunc, after ...part) part {
	return l.append(lifecycle.Part{Name: name, Run: run}, after)
}

// task adds a part that may end by itself, and is ready once it has.
func (l *partList) task(name string, run func(context.Context) error, after ...part) part {
	return l.append(lifecycle.Part{Name: name, Task: true, Run: func(ctx context.Context, _ func()) error { return run(ctx) }}, after)
}

// background adds a task that nobody waits for.
func (l *partList) background(name string, run func(context.Context) error, after ...part) {
	l.append(lifecycle.Part{Name: name, Task: true, Run: atOnce(run)}, after)
}

func (l *partList) append(p lifecycle.Part, after []part) part {
	for _, dependency := range after {
		if dependency != (part{}) {
			p.After = append(p.After, dependency.name)
		}
	}
	l.parts = append(l.parts, p)
	if n := len(l.wings); n > 0 {
		current := &l.wings[n-1]
		current.parts = append(current.parts, p.Name)
		current.after[p.Name] = p.After
	}
	return part{p.Name}
}

// atOnce is for parts that are of use from their first moment on.
func atOnce(run func(context.Context) error) runFunc {
	return func(ctx context.Context, ready func()) error {
		ready()
		return run(ctx)
	}
}

// startPatience is how long the start waits for a part that others could do without.
const startPatience = 15 * time.Second

// goOn lets the others start without a part that does not become ready in time:
// an object in the store that cannot be read, for example, keeps whoever reads
// all objects of its kind from ever beginning. It follows when it can.
func (c *Cluster) goOn(name string, run runFunc) runFunc {
	return func(ctx context.Context, ready func()) error {
		ready = sync.OnceFunc(ready)
		late := time.AfterFunc(startPatience, func() {
			c.problems.Say("start", name, problems.Problem{
				Severity: problems.Error, Message: fmt.Sprintf("part %s is not ready after %s", name, startPatience), Instead: "the others go on without it",
			})
			ready()
		})
		defer late.Stop()
		err := run(ctx, func() {
			late.Stop()
			c.problems.Say("start", name)
			ready()
		})
		if err == nil {
			c.problems.Say("start", name)
		}
		return err
	}
}
