package diagnostics

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// WriteInstances prints a table of instances, as they are at that time.
func WriteInstances(out io.Writer, running []*datadir.RunInfo, now time.Time) error {
	var t table
	t.row("PID", "READY", "AGE", "MANIFESTS", "DATA DIR")
	for _, info := range running {
		ready, age := "no", ""
		if info.Ready {
			ready = "yes"
		}
		if !info.Started.IsZero() {
			age = now.Sub(info.Started).Round(time.Second).String()
		}
		t.row(fmt.Sprint(info.PID), ready, age, strings.Join(info.Dirs, " "), info.DataDir)
	}
	return t.writeRows(out)
}
