package diagnostics

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"path"

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
	described := &State{}
	status, err := ask(ctx, info, path.Join("state", table), described)
	switch {
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("there is no table %q; linkerd-lite diagnostics state lists them", table)
	case err != nil:
		return nil, err
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
	var t table
	switch {
	case s.Tables != nil:
		t.row("TABLE", "RESOURCE", "OBJECTS")
		for _, held := range s.Tables {
			t.row(held.Name, held.Resource, fmt.Sprint(held.Objects))
		}
	case s.Views != nil:
		t.row("FAMILY", "KEY", "HOLDERS", "VERSION", "REVISION", "CAUSE")
		for _, v := range s.Views {
			t.row(v.Family, printable.Text(v.Key), fmt.Sprint(v.Holders), fmt.Sprint(v.Version), fmt.Sprint(v.Revision), printable.Text(cmp.Or(v.Fault, v.Cause)))
		}
	default:
		t.row("KEY", "VERSION")
		for _, row := range s.Rows {
			t.row(printable.Text(row.Key), printable.Text(row.Version))
		}
	}
	return t.writeRows(out)
}
