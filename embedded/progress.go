package embedded

import (
	"fmt"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// Progress says how far the start is after so long, a line for each wing.
func (c *Cluster) Progress(elapsed time.Duration) []string {
	return progressLines(c.groups, c.supervisor.Status(), elapsed)
}

// slowAfter is from when on a line says what a part waits for that is starting.
const slowAfter = 5 * time.Second

// progressLines say how far a start is, a line for each wing: done and when,
// under way with its parts that are starting, or the wings that it waits for, in their order.
func progressLines(wings []wing, parts []lifecycle.Status, elapsed time.Duration) []string {
	status := make(map[string]lifecycle.Status, len(parts))
	for _, part := range parts {
		status[part.Name] = part
	}
	owner := map[string]string{}
	for _, w := range wings {
		for _, part := range w.parts {
			owner[part] = w.name
		}
	}
	isReady := func(name string) bool { return status[name].Ready > 0 || status[name].State == lifecycle.Running }
	var lines []string
	for _, w := range wings {
		var starting []string
		var last time.Duration
		waitsFor, cause := map[string]bool{}, ""
		for _, part := range w.parts {
			last = max(last, status[part].Ready)
			switch {
			case isReady(part):
			case status[part].State == lifecycle.Starting:
				starting = append(starting, part)
				if waits := status[part].WaitsFor; waits != "" && elapsed > slowAfter {
					cause = ": " + printable.Text(waits)
				}
			default:
				for _, dependency := range w.after[part] {
					if other := owner[dependency]; !isReady(dependency) && other != w.name {
						waitsFor[other] = true
					}
				}
			}
		}
		switch {
		case len(starting) > 0:
			lines = append(lines, fmt.Sprintf("  %-16s %6.1f s   starting %s%s", w.name, elapsed.Seconds(), strings.Join(starting, ", "), cause))
		case len(waitsFor) > 0:
			var names []string
			for _, other := range wings {
				if waitsFor[other.name] {
					names = append(names, other.name)
				}
			}
			lines = append(lines, fmt.Sprintf("  %-16s            waits for %s", w.name, strings.Join(names, ", ")))
		default:
			lines = append(lines, fmt.Sprintf("√ %-16s %6.1f s", w.name, last.Seconds()))
		}
	}
	return lines
}
