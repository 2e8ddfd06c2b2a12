package diagnostics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// ViewsTable is the name under which the views are asked for.
const ViewsTable = "views"

// State is what a control plane holds at a revision: its tables, or what is in one of them.
type State struct {
	// Revision counts the changes that led to it.
	Revision uint64        `json:"revision"`
	Tables   []state.Table `json:"tables,omitempty"`
	Rows     []state.Row   `json:"rows,omitempty"`
	Views    []view.Info   `json:"views,omitempty"`
}

// Describe is the State of a control plane; table is "" for all tables, ViewsTable
// for the views, else the name of one. The error says that there is none of that name.
func Describe(st *state.State, graph *view.Graph, table string) (described State, err error) {
	switch table {
	case "":
		described.Tables, described.Revision = st.Tables()
		views, _ := graph.Views()
		described.Tables = append(described.Tables, state.Table{Name: ViewsTable, Objects: len(views)})
	case ViewsTable:
		described.Views, described.Revision = graph.Views()
	default:
		described.Rows, described.Revision, err = st.Rows(table)
	}
	return described, err
}

// AskState asks a running instance; dataDir as for datadir.Find.
func AskState(ctx context.Context, dataDir, table string) (*State, error) {
	info, err := datadir.Find(dataDir)
	if err != nil {
		return nil, err
	}
	address := url.URL{Scheme: "http", Host: info.Addresses["admin"], Path: "/state"}
	if table != "" {
		address = *address.JoinPath(table)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the instance: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("there is no table %q; linkerd-lite diagnostics state lists them", table)
	}
	described := &State{}
	if err := json.NewDecoder(response.Body).Decode(described); err != nil {
		return nil, fmt.Errorf("asking the instance: %s: %w", response.Status, err)
	}
	return described, nil
}

// StateWriter returns the writer for an output format.
func StateWriter(format string) (func(io.Writer, *State) error, error) {
	switch format {
	case "table":
		return writeState, nil
	case "json":
		return func(out io.Writer, described *State) error { return WriteJSON(out, described) }, nil
	}
	return nil, fmt.Errorf("output format %q: use table or json", format)
}

// writeState prints whichever of the three there is.
func writeState(out io.Writer, s *State) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	line := func(columns ...any) {
		texts := make([]string, len(columns))
		for i, column := range columns {
			if texts[i] = printable.Text(fmt.Sprint(column)); texts[i] == "" {
				texts[i] = "-"
			}
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	switch {
	case s.Tables != nil:
		line("TABLE", "RESOURCE", "OBJECTS")
		for _, t := range s.Tables {
			line(t.Name, t.Resource, t.Objects)
		}
	case s.Views != nil:
		line("FAMILY", "KEY", "HOLDERS", "VERSION", "REVISION", "CAUSE")
		for _, v := range s.Views {
			cause := v.Cause
			if v.Fault != "" {
				cause = v.Fault
			}
			line(v.Family, v.Key, v.Holders, v.Version, v.Revision, cause)
		}
	default:
		line("KEY", "VERSION")
		for _, row := range s.Rows {
			line(row.Key, row.Version)
		}
	}
	return table.Flush()
}
