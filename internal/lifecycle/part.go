package lifecycle

import (
	"context"
	"fmt"
	"slices"
)

// Part is one long-running piece of a program.
type Part struct {
	// Name is what logs, errors and /ready call the part. It is unique.
	Name string
	// After names the parts that must be ready before this one starts. They
	// are told to stop only once this one has ended.
	After []string
	// Task says that Run may return nil before it is told to stop; a task that
	// returns nil counts as ready. Any other part that does so has failed.
	Task bool
	// Waits, if not nil, says what the part waits for while it starts: what it tried
	// last and why that failed. It is called at any time, and must not wait.
	Waits func() string
	// Run does the part's work until ctx ends, and returns the reason when it
	// cannot go on. It calls ready once, when others may use the part.
	Run func(ctx context.Context, ready func()) error
}

// sorted returns parts so that each comes behind those it names in After. The
// order of independent parts is kept.
func sorted(parts []Part) ([]Part, error) {
	byName := make(map[string]Part, len(parts))
	for _, p := range parts {
		if p.Name == "" || p.Run == nil {
			return nil, fmt.Errorf("lifecycle: part %q needs a name and a function", p.Name)
		}
		if _, dup := byName[p.Name]; dup {
			return nil, fmt.Errorf("lifecycle: two parts are called %q", p.Name)
		}
		byName[p.Name] = p
	}
	const visiting, done = 1, 2
	marks := make(map[string]int, len(parts))
	order := make([]Part, 0, len(parts))
	var visit func(p Part, path []string) error
	visit = func(p Part, path []string) error {
		path = append(slices.Clip(path), p.Name)
		switch marks[p.Name] {
		case done:
			return nil
		case visiting:
			return fmt.Errorf("lifecycle: parts wait for each other: %v", path)
		}
		marks[p.Name] = visiting
		for _, name := range p.After {
			dependency, ok := byName[name]
			if !ok {
				return fmt.Errorf("lifecycle: part %q waits for %q, which is not there", p.Name, name)
			}
			if err := visit(dependency, path); err != nil {
				return err
			}
		}
		marks[p.Name] = done
		order = append(order, p)
		return nil
	}
	for _, p := range parts {
		if err := visit(p, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}
