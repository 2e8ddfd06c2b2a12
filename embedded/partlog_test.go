package embedded

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// The log of a control-plane container has what its part says, and stays short.
func TestPartLogs(t *testing.T) {
	logs := &partLogs{dir: t.TempDir()}
	if err := logs.open(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(&partHandler{Handler: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}), logs: logs})
	log.With("part", "identity").Info("certificate issued", "to", "web")
	log.With("part", "controlplane").With("api", "policy").Warn("bad policy")
	log.With("part", "store").Info("nobody's")
	for range 2000 {
		log.With("part", "state").Info(strings.Repeat("x", 100))
	}
	log.With("part", "state").Info("newest")
	for container, want := range map[string]string{
		"identity": "certificate issued\" part=identity to=web\n", "policy": "bad policy\" part=controlplane api=policy\n", "destination": "newest part=state\n", "sp-validator": "",
	} {
		path, err := logs.path(container)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(data), want) || want == "" && len(data) > 0 {
			t.Errorf("%s: %.200s, %v; want %s", container, data, err, want)
		}
		if len(data) > longestPartLog {
			t.Errorf("%s has %d bytes", container, len(data))
		}
		for line := range strings.Lines(string(data)) {
			if !strings.Contains(line, " stderr F time=") {
				t.Fatalf("%s: not in the format of a kubelet: %s", container, line)
			}
		}
	}
	if got := out.String(); !strings.Contains(got, "bad policy") || strings.Contains(got, "certificate") {
		t.Errorf("terminal: %s", got)
	}
}
