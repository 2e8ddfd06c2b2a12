package diagnostics

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

func TestCheckReport(t *testing.T) {
	info := &datadir.RunInfo{PID: 7, DataDir: "/data"}
	parts := []lifecycle.Status{{Name: "etcd", State: lifecycle.Running}, {Name: "state", State: lifecycle.Waiting}, {Name: "views", Error: "boom"}}
	fault := problems.Problem{File: "dir/a.yaml", Line: 3, Object: problems.Object{Kind: "Service", Namespace: "shop", Name: "cart"}, Message: "no port"}
	for _, row := range []struct {
		name    string
		info    *datadir.RunInfo
		ready   *Readiness
		err     error
		table   string
		short   string
		failure string
	}{
		{
			name: "nothing runs", err: errors.New("nothing is running"),
			table:   "instance\n--------\n× an instance is running and ready\n    nothing is running\n\nStatus check results are ×\n",
			short:   "instance\n--------\n× an instance is running and ready\n    nothing is running\n\nStatus check results are ×\n",
			failure: "nothing is running",
		},
		{
			name: "starting", info: info, ready: &Readiness{Readiness: admin.Readiness{Parts: parts}}, err: errors.New("not ready"),
			table: "parts\n-----\n√ etcd\n× state\n    waiting\n× views\n    boom\n\n" +
				"instance\n--------\n× process 7 in /data is ready\n    not ready\n\nStatus check results are ×\n",
			short: "parts\n-----\n× state\n    waiting\n× views\n    boom\n\n" +
				"instance\n--------\n× process 7 in /data is ready\n    not ready\n\nStatus check results are ×\n",
			failure: "not ready",
		},
		{
			name: "in sync", info: info,
			ready: &Readiness{Readiness: admin.Readiness{Parts: parts[:1]}, Manifests: &manifests.Status{InSync: true, Objects: 1, Files: 2}},
			table: "parts\n-----\n√ etcd\n\ninstance\n--------\n√ process 7 in /data is ready\n\n" +
				"manifests\n---------\n√ manifests in sync: 1 object of 2 files\n\nStatus check results are √\n",
			short: "Status check results are √\n",
		},
		{
			name: "an object with a problem", info: info,
			ready: &Readiness{Readiness: admin.Readiness{Parts: parts[:1], Problems: []problems.Problem{{
				Object: problems.Object{Kind: "Server", Namespace: "shop", Name: "cart"}, Field: "spec.port", Message: "no port",
				Instead: "its last valid version stays in force", Source: "decode", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local),
			}}}},
			table: "parts\n-----\n√ etcd\n\n" +
				"objects\n-------\n‼ Server shop/cart\n    spec.port: no port; its last valid version stays in force (decode, since 03:04:05)\n\n" +
				"instance\n--------\n√ process 7 in /data is ready\n\nStatus check results are √\n",
			short: "objects\n-------\n‼ Server shop/cart\n    spec.port: no port; its last valid version stays in force (decode, since 03:04:05)\n\nStatus check results are √\n",
		},
		{
			name: "a note", info: info,
			ready: &Readiness{Readiness: admin.Readiness{Parts: parts[:1], Problems: []problems.Problem{{
				Object: problems.Object{Kind: "Server", Namespace: "shop", Name: "cart"}, Message: "probes need a route", Severity: problems.Note,
			}}}},
			table: "parts\n-----\n√ etcd\n\nobjects\n-------\n√ Server shop/cart: probes need a route\n\n" +
				"instance\n--------\n√ process 7 in /data is ready\n\nStatus check results are √\n",
			short: "Status check results are √\n",
		},
		{
			name: "a fault", info: info,
			ready: &Readiness{Readiness: admin.Readiness{Parts: parts[:1]}, Manifests: &manifests.Status{Faults: []problems.Problem{fault}}},
			table: "parts\n-----\n√ etcd\n\ninstance\n--------\n√ process 7 in /data is ready\n\n" +
				"manifests\n---------\n× dir/a.yaml:3: Service shop/cart\n    no port\n\nStatus check results are ×\n",
			short:   "manifests\n---------\n× dir/a.yaml:3: Service shop/cart\n    no port\n\nStatus check results are ×\n",
			failure: "manifests are not in sync: 1 fault, 0 waiting, 0 deletions held",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			report, failure := NewCheckReport(row.info, row.ready, row.err)
			text := ""
			if failure != nil {
				text = failure.Error()
			}
			if text != row.failure || report.Success != (failure == nil) {
				t.Errorf("error %q, success %v, want %q", text, report.Success, row.failure)
			}
			for format, want := range map[string]string{"table": row.table, "short": row.short} {
				write, err := CheckWriter(format)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				if err := write(&out, report); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, out.String()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", format, diff)
				}
			}
			write, err := CheckWriter("json")
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := write(&out, report); err != nil {
				t.Fatal(err)
			}
			var again CheckReport
			if err := json.Unmarshal([]byte(out.String()), &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(report, again); diff != "" {
				t.Errorf("json (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := CheckWriter("yaml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}
