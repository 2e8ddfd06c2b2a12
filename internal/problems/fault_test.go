package problems

import (
	"strings"
	"testing"
)

// A fault says what happened and where, and stays itself when it is passed on.
func TestCatch(t *testing.T) {
	if fault := Catch(func() {}); fault != nil {
		t.Error(fault)
	}
	fault := Catch(func() {
		var none []int
		_ = none[len(none)]
	})
	if fault == nil || len(fault.Trace) == 0 || !strings.HasPrefix(fault.Trace[0], "fault_test.go:") {
		t.Fatalf("%+v, want one that names fault_test.go", fault)
	}
	if text := fault.Error(); !strings.Contains(text, "index out of range") || !strings.Contains(text, "fault_test.go:") {
		t.Error(text)
	}
	if again := Catch(func() { panic(fault) }); again != fault {
		t.Errorf("passed on: %+v", again)
	}
}

// A panic is that of the function in which it arose, also where it goes through others.
func TestLocate(t *testing.T) {
	const own = "github.com/linkerd-lite/linkerd-lite/internal/problems."
	var empty []int
	for _, row := range []struct {
		name            string
		panics          func()
		function, place string
	}{
		{"of our own", func() { panic("x") }, own + "TestLocate.func1", "fault_test.go:"},
		{"of the language", func() { _ = empty[len(empty)] }, own + "TestLocate.func2", "fault_test.go:"},
		{"of a library", func() { _ = strings.Repeat("x", -1) }, "strings.Repeat", "strings.go:"},
		{"passed on", func() {
			defer func() { panic(recover()) }()
			_ = strings.Repeat("x", -1)
		}, "strings.Repeat", "strings.go:"},
	} {
		t.Run(row.name, func(t *testing.T) {
			fault := Catch(row.panics)
			if fault == nil || fault.Function != row.function || len(fault.Trace) == 0 || !strings.HasPrefix(fault.Trace[0], row.place) {
				t.Errorf("%+v, want %s at %s", fault, row.function, row.place)
			}
		})
	}
}
