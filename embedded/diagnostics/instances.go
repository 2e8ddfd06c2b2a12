package diagnostics

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// WriteInstances prints a table of instances, as they are at that time.
func WriteInstances(out io.Writer, running []*datadir.RunInfo, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PID\tREADY\tAGE\tMANIFESTS\tDATA DIR")
	for _, info := range running {
		ready, age, dirs := "no", "-", "-"
		if info.Ready {
			ready = "yes"
		}
		if !info.Started.IsZero() {
			age = now.Sub(info.Started).Round(time.Second).String()
		}
		if len(info.Dirs) > 0 {
			dirs = strings.Join(info.Dirs, " ")
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", info.PID, ready, age, dirs, info.DataDir)
	}
	return table.Flush()
}
