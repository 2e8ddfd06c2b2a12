package rulebook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Covers says that a test holds rules, such as "D37" or "D38, B12". The test
// fails where one of them is not in docs/rules. `go run ./test/rules D37` finds
// the tests of a rule by these calls, so their arguments are literals.
func Covers(tb testing.TB, rules ...string) {
	tb.Helper()
	cited := Numbers(strings.Join(rules, " "))
	if len(cited) == 0 {
		tb.Fatalf("%q names no rule", rules)
	}
	for _, number := range cited {
		if err := defined(number); err != nil {
			tb.Fatal(err)
		}
	}
}

// Run is t.Run for a row of a table. A name that begins with numbers, such as
// "D38, B12: IPv6 is off", says which rules the row holds, as Covers does.
func Run(t *testing.T, name string, test func(*testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) {
		if cited := Leading(name); cited != nil {
			Covers(t, cited...)
		}
		test(t)
	})
}

// defined returns an error if docs/rules has no such rule.
func defined(number string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	name := filepath.Join(root, "docs", "rules", file(number))
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), anchor(number)+" ") {
		return fmt.Errorf("there is no rule %s: write it down in docs/rules/%s, behind %s", number, file(number), anchor(number))
	}
	return nil
}

// Root is the directory of the module that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above: docs/rules cannot be found")
		}
		dir = parent
	}
}
