package embedded

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// Progress says how far the start is after so long, a line for each wing.
func (c *Cluster) Progress(elapsed time.Duration) []string {
	return progressLines(c.groups, c.supervisor.Status(), elapsed)
}

// progressLines say how far a start is, a line for each wing: done and when,
// under way with its parts that are starting, or the wings that it waits for.
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
		var starting, waitsFor []string
		var last time.Duration
		for _, part := range w.parts {
			last = max(last, status[part].Ready)
			switch {
			case isReady(part):
			case status[part].State == lifecycle.Starting:
				starting = append(starting, part)
			default:
				for _, dependency := range w.after[part] {
					if other := owner[dependency]; !isReady(dependency) && other != w.name && !slices.Contains(waitsFor, other) {
						waitsFor = append(waitsFor, other)
					}
				}
			}
		}
		switch {
		case len(starting) > 0:
			lines = append(lines, fmt.Sprintf("  %-16s %6.1f s   starting %s", w.name, elapsed.Seconds(), strings.Join(starting, ", ")))
		case len(waitsFor) > 0:
			lines = append(lines, fmt.Sprintf("  %-16s            waits for %s", w.name, strings.Join(waitsFor, ", ")))
		default:
			lines = append(lines, fmt.Sprintf("√ %-16s %6.1f s", w.name, last.Seconds()))
		}
	}
	return lines
}
