package linkerd

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// policy-inbound 4.3. A want of "bad" is an error.
func TestParsePolicyPorts(t *testing.T) {
	for list, want := range map[string]string{
		"":                   "",
		" , ,":               "",
		"80":                 "80",
		"80,443":             "80,443",
		" 80 , 8000 - 8002 ": "80,8000-8002",
		"1-65535":            "1-65535",
		"80,,443,":           "80,443",
		"2222,2220-2223":     "2220-2223",
		"0":                  "bad",
		"65536":              "bad",
		"0-10":               "bad",
		"10-9":               "bad",
		"-1":                 "bad",
		"80-":                "bad",
		"1-2-3":              "bad",
		"http":               "bad",
		"80,http":            "bad",
		"80 81":              "bad",
	} {
		got, err := ParsePolicyPorts(list)
		text := got.String()
		if err != nil {
			text = "bad"
		}
		if text != want {
			t.Errorf("%q: %s, want %s (%v)", list, text, want, err)
		}
	}
}

// Of a long list an error names what is needed to recognise it.
func TestErrorOfManyBadPolicyPorts(t *testing.T) {
	rulebook.Covers(t, "F11")
	_, err := ParsePolicyPorts(strings.Repeat("no-port,", 60_000))
	if err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "no-port") {
		t.Errorf("%.500v", err)
	}
}

func FuzzParsePolicyPorts(f *testing.F) {
	f.Add("80, 8000-8002,,")
	f.Fuzz(func(t *testing.T, list string) {
		ports, err := ParsePolicyPorts(list)
		if err != nil {
			if len(ports.Ranges()) > 0 {
				t.Fatalf("%q is bad and yet has ports %v", list, ports)
			}
			return
		}
		if ports.Contains(0) {
			t.Fatalf("%q has port 0", list)
		}
		again, err := ParsePolicyPorts(ports.String())
		if err != nil || !again.Equal(ports) {
			t.Fatalf("%q is read as %v and then as %v: %v", list, ports, again, err)
		}
	})
}
