package embedded

import (
	"strings"
	"testing"
)

// A panic is that of the function in which it arose, also where it goes through others.
func TestPanicking(t *testing.T) {
	var empty []int
	for _, row := range []struct {
		name            string
		panics          func()
		function, place string
	}{
		{"of our own", func() { panic("x") }, ownModule + "embedded.TestPanicking.func1", "foreign_test.go:"},
		{"of the language", func() { _ = empty[len(empty)] }, ownModule + "embedded.TestPanicking.func2", "foreign_test.go:"},
		{"of a library", func() { strings.Repeat("x", -1) }, "strings.Repeat", "strings.go:"},
		{"passed on", func() {
			defer func() { panic(recover()) }()
			strings.Repeat("x", -1)
		}, "strings.Repeat", "strings.go:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var function string
			var places []string
			func() {
				defer func() { _ = recover() }()
				defer func() { function, places = panicking() }()
				row.panics()
			}()
			if function != row.function || len(places) == 0 || !strings.HasPrefix(places[0], row.place) {
				t.Errorf("%s at %v, want %s at %s", function, places, row.function, row.place)
			}
		})
	}
}
