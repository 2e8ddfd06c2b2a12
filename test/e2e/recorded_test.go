package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
)

// Recorded conversations that do not hold when all parts run.
var notWithEverything = []struct{ pattern, why string }{
	{"get-owner-*", "the garbage collector takes Pods whose owners are made up"},
	{"profile-invalid-*", "the webhook refuses the ServiceProfile"},
	{"profile-opaque-ports-field", "the webhook refuses the ServiceProfile"},
	{"profile-timeouts", "the webhook refuses the ServiceProfile"},
	{"profile-unnamed-route", "the webhook refuses the ServiceProfile"},
}

// casesAtOnce is how many conversations are played at a time: they mostly wait for silence.
const casesAtOnce = 8

// The recorded conversations of destination and policy, which their own tests
// play against the views alone, hold for the whole program with all its parts.
func TestRecordedCases(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	var cases []recorded.Case
	for _, dir := range []string{"../../destination/testdata/cases", "../../policy/inbound/testdata/cases", "../../policy/outbound/testdata/cases", "testdata/cases"} {
		found, err := recorded.Load(filepath.Join(dir, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			if c.Server() == "default" && reasonAgainst(t, c.Name) == "" {
				cases = append(cases, c)
			}
		}
	}
	up := startInstance(t)
	cluster := newClusterClient(t, up)
	var group errgroup.Group
	group.SetLimit(casesAtOnce)
	for n, c := range cases {
		group.Go(func() error {
			t.Run(c.Name, func(t *testing.T) { cluster.play(t, n, c) })
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}

	t.Run("metrics and log of the whole run", func(t *testing.T) {
		rulebook.Covers(t, "B21")
		if metrics := up.metrics(); !strings.Contains(metrics, "\ngrpc_server_started_total{") {
			t.Errorf("no series of calls in\n%s", metrics)
		}
		up.stop()
		if log := up.log.String(); strings.Contains(log, "duplicate") || strings.Contains(log, "already registered") {
			t.Errorf("something was registered twice:\n%s", log)
		}
	})
}

func reasonAgainst(t *testing.T, name string) string {
	t.Helper()
	for _, exception := range notWithEverything {
		matches, err := path.Match(exception.pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if matches {
			return exception.why
		}
	}
	return ""
}

// placeholders are the values of one case; n tells the cases of a run apart.
func placeholders(n int, namespace, kubeconfig string) (*strings.Replacer, error) {
	content, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	var pairs []string
	for i := 40; i > 0; i-- { // $IP10 before $IP1
		pairs = append(pairs, fmt.Sprint("$IP", i), fmt.Sprintf("10.%d.%d.%d", 128+n/256, n%256, i), fmt.Sprint("$SIX", i), fmt.Sprintf("fd00:c0f0:%x::%x", n, i))
	}
	for i := 8; i > 0; i-- {
		pairs = append(pairs, fmt.Sprint("$CIP", i), fmt.Sprintf("10.97.%d.%d", n%256, i))
	}
	pairs = append(pairs, "$NS", namespace, "$KUBECONFIG", base64.StdEncoding.EncodeToString(content))
	return strings.NewReplacer(pairs...), nil
}
