package diagnostics

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is lines, and then rows of equally many cells.
type table struct {
	lines []string
	rows  [][]string
}

func (t *table) line(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// row adds a row. An empty cell is a dash.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		if cell == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(out io.Writer) error {
	for _, line := range t.lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if len(t.rows) < 2 {
		return nil // a header over nothing
	}
	return t.writeRows(out)
}

func (t *table) writeRows(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range t.rows {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}
