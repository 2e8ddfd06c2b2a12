package linkerd_test

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestParsePortSet(t *testing.T) {
	named := func(name string) (uint16, bool) {
		port, ok := map[string]uint16{"mysql": 3306, "123-456": 77}[name]
		return port, ok
	}
	for _, test := range []struct {
		name, in, want string
		bad            bool
	}{
		{name: "B29 space after the comma", in: "121, 122", want: "121-122"},
		{name: "B29 range is not spelt out", in: "4000-4005", want: "4000-4005"},
		{name: "B29 port name", in: "mysql", want: "3306"},
		{name: "B29 empty", in: "", want: ""},
		{name: "D 3.6 blank", in: "  ", want: ""},
		{name: "D 3.6 trailing comma", in: "80,", want: "80"},
		{name: "D 3.6 two trailing commas", in: "80,,", want: "80", bad: true},
		{name: "D 3.6 a name that looks like a range", in: "123-456", want: "77"},
		{name: "D 3.6 bad item is skipped", in: "80,x,90", want: "80,90", bad: true},
		{name: "D 3.6 range the wrong way round", in: "9-8,1", want: "1", bad: true},
		{name: "D 3.6 out of range", in: "65536", want: "", bad: true},
		{name: "D 3.6 bounds", in: "0,65535", want: "0,65535"},
		{name: "out of order", in: "1000-1001,443,80,79", want: "79-80,443,1000-1001"},
		{name: "blanks in a range", in: "80 - 81", want: "80-81"},
		{name: "only a comma", in: ",", bad: true},
		{name: "overlap", in: "1-5,3-9,10", want: "1-10"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			set, err := linkerd.ParsePortSet(test.in, named)
			if got := set.String(); got != test.want {
				t.Errorf("ParsePortSet(%q) = %q, want %q", test.in, got, test.want)
			}
			if (err != nil) != test.bad {
				t.Errorf("ParsePortSet(%q) error = %v, want an error: %v", test.in, err, test.bad)
			}
		})
	}
}

// Of many bad items an error names the first, and counts the others.
func TestErrorOfManyBadPorts(t *testing.T) {
	rulebook.Covers(t, "F11")
	set, err := linkerd.ParsePortSet("80,"+strings.Repeat("no-port-"+strings.Repeat("x", 1000)+",", 60_000)+"81", nil)
	if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "no-port") || !strings.Contains(err.Error(), "and 59995 more") {
		t.Errorf("%.2500v", err)
	}
	if set.String() != "80-81" {
		t.Errorf("ports %s", set)
	}
}

func TestPortSetContains(t *testing.T) {
	set, err := linkerd.ParsePortSet("65535,100-200,25", nil)
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[uint32]bool{0: false, 25: true, 26: false, 99: false, 100: true, 150: true, 200: true, 201: false, 65535: true, 65536: false, 70000: false} {
		if got := set.Contains(port); got != want {
			t.Errorf("Contains(%d) = %v, want %v", port, got, want)
		}
	}
}
