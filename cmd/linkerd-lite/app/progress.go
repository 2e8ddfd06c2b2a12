package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// progressInterval is the time between two looks at a start.
const progressInterval = 200 * time.Millisecond

// progressLines say how far a start is, a line for each wing: done and when,
// under way with its parts that are starting, or what it waits for.
func progressLines(wings []embedded.Wing, parts []lifecycle.Status, elapsed time.Duration) []string {
	status := make(map[string]lifecycle.Status, len(parts))
	for _, part := range parts {
		status[part.Name] = part
	}
	isReady := func(name string) bool { return status[name].Ready > 0 || status[name].State == lifecycle.Running }
	var lines []string
	for _, wing := range wings {
		var starting, waitsFor []string
		var last time.Duration
		for _, part := range wing.Parts {
			last = max(last, status[part].Ready)
			switch {
			case isReady(part):
			case status[part].State == lifecycle.Starting:
				starting = append(starting, part)
			default:
				for _, dependency := range wing.After[part] {
					if !isReady(dependency) && !slices.Contains(wing.Parts, dependency) && !slices.Contains(waitsFor, dependency) {
						waitsFor = append(waitsFor, dependency)
					}
				}
			}
		}
		switch {
		case len(starting) > 0:
			lines = append(lines, fmt.Sprintf("  %-16s %6.1f s   starting %s", wing.Name, elapsed.Seconds(), strings.Join(starting, ", ")))
		case len(waitsFor) > 0:
			lines = append(lines, fmt.Sprintf("  %-16s            waits for %s", wing.Name, strings.Join(waitsFor, ", ")))
		default:
			lines = append(lines, fmt.Sprintf("√ %-16s %6.1f s", wing.Name, last.Seconds()))
		}
	}
	return lines
}
