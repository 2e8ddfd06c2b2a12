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
