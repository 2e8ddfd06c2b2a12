package state

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func server(name, version string, port any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.linkerd.io/v1beta3", "kind": "Server",
		"metadata": map[string]any{"namespace": "ns", "name": name, "resourceVersion": version},
		"spec":     map[string]any{"podSelector": map[string]any{}, "port": port},
	}}
}

func newServerSink(t *testing.T) (*State, *sink) {
	t.Helper()
	return newLoggingServerSink(t, nil)
}

func newLoggingServerSink(t *testing.T, log *slog.Logger) (*State, *sink) {
	t.Helper()
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Servers.KindInfo}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s, &sink{state: s, info: &Servers.KindInfo}
}

// serverPort returns the port a Server has in the state, "" without one.
func serverPort(s *State, name string) string {
	obj, ok := Get(s.Snapshot().Reader(), Servers, "ns", name)
	if !ok {
		return ""
	}
	return obj.Spec.Port.String()
}

// One object that does not decode harms no other
// and keeps its own last valid version (policy-inbound 1.3).
func TestUndecodableObjectKeepsItsLastVersion(t *testing.T) {
	rulebook.Covers(t, "B34, B69, L10, L13")
	var log bytes.Buffer
	s, k := newLoggingServerSink(t, slog.New(slog.NewTextHandler(&log, nil)))
	bad := map[string]any{"not": "a port"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(k.Replace([]any{server("a", "1", int64(80)), server("b", "2", bad), server("c", "3", "http")}, "3"))
	if !s.Synced() {
		t.Error("not synced after a list")
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, `object="Server ns/b"`) {
		t.Errorf("want one warning that names ns/b:\n%s", text)
	}
	for name, want := range map[string]string{"a": "80", "b": "", "c": "http"} {
		if got := serverPort(s, name); got != want {
			t.Errorf("after the list: port of %s is %q, want %q", name, got, want)
		}
	}
	must(k.Update(server("a", "4", bad)))
	if got := serverPort(s, "a"); got != "80" {
		t.Errorf("after a bad update: %q, want 80", got)
	}
	must(k.Replace([]any{server("a", "5", bad)}, "5"))
	if got := serverPort(s, "a"); got != "80" {
		t.Errorf("after a list with a bad version: %q, want 80", got)
	}
	if got := serverPort(s, "c"); got != "" {
		t.Errorf("an object that the list lacks is still there: %q", got)
	}
	reborn := server("a", "6", bad)
	reborn.SetUID("another")
	must(k.Replace([]any{server("b", "7", int64(1)), reborn}, "7"))
	if got := serverPort(s, "a"); got != "" {
		t.Errorf("a deleted object lives on under the name of one that does not decode: %q", got)
	}
	must(k.Add(server("a", "8", int64(80))))
	must(k.Delete(cache.DeletedFinalStateUnknown{Key: "ns/a", Obj: server("a", "9", bad)}))
	if got := serverPort(s, "a"); got != "" {
		t.Errorf("a bad version was deleted, yet a good one survives: %q", got)
	}
}

// What does not decode is noted once, however often its status changes or
// it is listed, and again when something else is wrong or it was well meanwhile.
func TestUndecodableObjectIsNotedOnce(t *testing.T) {
	rulebook.Covers(t, "B69")
	var log bytes.Buffer
	_, k := newLoggingServerSink(t, slog.New(slog.NewTextHandler(&log, nil)))
	bad, worse := map[string]any{"not": "a port"}, int64(0)
	for i, step := range []struct {
		do       func() error
		warnings int
	}{
		{func() error { return k.Replace([]any{server("a", "1", bad)}, "1") }, 1},
		{func() error { return k.Update(server("a", "2", bad)) }, 1},
		{func() error { return k.Add(server("b", "3", bad)) }, 2},
		{func() error { return k.Replace([]any{server("a", "2", bad), server("b", "3", bad)}, "3") }, 2},
		{func() error { return k.Update(server("a", "4", worse)) }, 3},
		{func() error { return k.Update(server("a", "5", int64(1))) }, 3},
		{func() error { return k.Update(server("a", "6", worse)) }, 4},
		{func() error { return k.Delete(server("a", "7", worse)) }, 4},
		{func() error { return k.Add(server("a", "8", worse)) }, 5},
		{func() error { return k.Replace([]any{server("b", "3", bad)}, "9") }, 5},
		{func() error { return k.Add(server("a", "10", worse)) }, 6},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != step.warnings {
			t.Errorf("after step %d: %d warnings, want %d:\n%s", i, got, step.warnings, log.String())
		}
	}
}

// A list of what is known already changes nothing, and
// what an object was is told when a list has something new of it (policy-inbound 2.3).
func TestListAgain(t *testing.T) {
	rulebook.Covers(t, "B32")
	s, k := newServerSink(t)
	sub := s.Subscribe()
	list := func(objects ...any) []Change {
		t.Helper()
		if err := k.Replace(objects, "1"); err != nil {
			t.Fatal(err)
		}
		changes, _ := sub.Take()
		return changes
	}
	if changes := list(server("a", "1", int64(80)), server("b", "2", int64(81))); len(changes) != 2 {
		t.Errorf("the first list: %+v", changes)
	}
	if changes := list(server("a", "1", int64(80)), server("b", "2", int64(81))); len(changes) != 0 {
		t.Errorf("the same list: %+v", changes)
	}
	if changes := list(server("a", "1", int64(80)), server("b", "3", int64(82))); len(changes) != 1 || changes[0].Key != "ns/b" || changes[0].Old == nil || changes[0].New == nil || len(changes[0].Between) != 0 {
		t.Errorf("a list with a new version of b: %+v", changes)
	}
}

func TestAbsentKindReadsAsEmpty(t *testing.T) {
	s, k := newServerSink(t)
	if err := k.Replace([]any{server("a", "1", int64(80))}, "1"); err != nil {
		t.Fatal(err)
	}
	if !k.replaceAll(nil) {
		t.Error("becoming absent is not reported")
	}
	if k.replaceAll(nil) {
		t.Error("staying absent is reported again")
	}
	if got := serverPort(s, "a"); got != "" {
		t.Errorf("an object of an absent kind is still there: %q", got)
	}
}

func TestSubscriptionMergesChanges(t *testing.T) {
	s, k := newServerSink(t)
	sub, other := s.Subscribe(), s.Subscribe()
	for _, obj := range []*unstructured.Unstructured{server("a", "1", int64(1)), server("a", "2", int64(2)), server("a", "2", int64(2))} {
		if err := k.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	changes, _ := sub.Take()
	if others, _ := other.Take(); len(others) != len(changes) {
		t.Errorf("another subscriber is told %+v", others)
	}
	if len(changes) != 1 || changes[0].Old != nil {
		t.Fatalf("changes: %+v, want one that is new", changes)
	}
	if got := changes[0].New.(metav1.Object).GetResourceVersion(); got != "2" {
		t.Errorf("newest version %s, want 2", got)
	}
	if err := k.Add(server("b", "3", int64(1))); err != nil {
		t.Fatal(err)
	}
	if err := k.Delete(server("b", "4", int64(1))); err != nil {
		t.Fatal(err)
	}
	changes, _ = sub.Take()
	if len(changes) != 1 || changes[0].Old != nil || changes[0].New != nil || len(changes[0].Between) != 1 {
		t.Errorf("an object that came and went: %+v, want its one version in between", changes)
	}
	s.Unsubscribe(sub)
	if err := k.Add(server("c", "5", int64(1))); err != nil {
		t.Fatal(err)
	}
	if changes, _ := sub.Take(); len(changes) != 0 {
		t.Errorf("after Unsubscribe: %+v", changes)
	}
}

// The series of policy-inbound 1.5.
func TestWatchMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Servers.KindInfo}, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	k := &sink{state: s, info: &Servers.KindInfo}
	for _, err := range []error{
		k.Replace([]any{server("a", "1", int64(80))}, "1"), k.Add(server("b", "2", int64(80))),
		k.Update(server("b", "3", int64(81))), k.Delete(server("b", "4", int64(81))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.watches.error(errors.New("connection refused"), k.info)
	s.watches.error(apierrors.NewForbidden(schema.GroupResource{}, "servers", nil), k.info)
	want := `
# HELP kube_watch_errors_total Lists and watches that failed, by reason.
# TYPE kube_watch_errors_total counter
kube_watch_errors_total{error="Forbidden",group="policy.linkerd.io",kind="Server",version="v1beta3"} 1
kube_watch_errors_total{error="Transport",group="policy.linkerd.io",kind="Server",version="v1beta3"} 1
# HELP kube_watch_events_total Events of watched kinds; a Restart is a new list.
# TYPE kube_watch_events_total counter
kube_watch_events_total{group="policy.linkerd.io",kind="Server",op="Apply",version="v1beta3"} 2
kube_watch_events_total{group="policy.linkerd.io",kind="Server",op="Delete",version="v1beta3"} 1
kube_watch_events_total{group="policy.linkerd.io",kind="Server",op="Restart",version="v1beta3"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kube_watch_errors_total", "kube_watch_events_total"); err != nil {
		t.Error(err)
	}
}
