package diagnostics

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// What is held is printed as a table, also where there is nothing, and no
// control character of foreign text gets through.
func TestWriteState(t *testing.T) {
	for _, row := range []struct {
		name  string
		state State
		want  string
	}{
		{
			"tables", State{Tables: []state.Table{{Name: "server", Resource: "servers.policy.linkerd.io", Objects: 2}, {Name: "routes"}}},
			"TABLE    RESOURCE                    OBJECTS\nserver   servers.policy.linkerd.io   2\nroutes   -                           0\n",
		},
		{"rows", State{Rows: []state.Row{{Key: "ns/web", Version: "7"}}}, "KEY      VERSION\nns/web   7\n"},
		{"nothing", State{}, "KEY   VERSION\n"},
		{
			"views", State{Views: []view.Info{
				{Family: "f", Key: "a\x1b[31m", Holders: 1, Version: 3, Revision: 9, Cause: "service ns/web"}, {Family: "f", Key: "b", Fault: "no colour"},
			}},
			"FAMILY   KEY         HOLDERS   VERSION   REVISION   CAUSE\nf        a\\x1b[31m   1         3         9          service ns/web\nf        b           0         0         0          no colour\n",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out strings.Builder
			if err := writeState(&out, &row.state); err != nil || out.String() != row.want {
				t.Errorf("%v\n%s\nwant\n%s", err, out.String(), row.want)
			}
		})
	}
}
