package state

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A kind that cannot be followed any more is a problem, however it fails, for
// as long as that lasts; what was known last is used.
func TestKindThatCannotBeFollowed(t *testing.T) {
	rulebook.Covers(t, "F1, F6, F11")
	for _, row := range []struct {
		name, cluster string
		fail          func(servers, definitions *resource)
		// want is the object and the reason.
		want string
	}{
		{"every request fails", LocalCluster, func(servers, _ *resource) {
			servers.set(func() { servers.refused = http.StatusInternalServerError })
			servers.end(0)
		}, "Server: cannot list or watch: Internal Server Error"},
		{"the watch breaks", LocalCluster, func(servers, _ *resource) {
			servers.set(func() { servers.refused = http.StatusInternalServerError })
			servers.end(http.StatusInternalServerError)
		}, "Server: cannot list or watch: Internal Server Error"},
		{"the watch goes on, and the definition says otherwise", LocalCluster, func(servers, definitions *resource) {
			servers.set(func() { servers.refused = http.StatusInternalServerError })
			definitions.set(func() { definitions.generation++ })
			definitions.put("", "servers.policy.linkerd.io", nil)
		}, "Server: cannot list or watch: Internal Server Error"},
		{"connections are refused", LocalCluster, func(servers, _ *resource) {
			servers.set(func() { servers.down = true })
			servers.end(0)
		}, "connection refused"},
		{"connections to a linked cluster are refused", "east", func(servers, _ *resource) {
			servers.set(func() { servers.down = true })
			servers.end(0)
		}, "Server in east: cannot list or watch: "},
		{"no answer", LocalCluster, func(servers, _ *resource) {
			servers.set(func() { servers.silent = make(chan struct{}) })
			servers.end(0)
		}, "Server: cannot list or watch: the API server does not answer"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer()
				definitions, servers := server.serveDefinitions(), server.serveKind(&Servers.KindInfo)
				definitions.generation = 1
				definitions.put("", "servers.policy.linkerd.io", nil)
				servers.put("ns", "a", serverSpec(1))
				var log bytes.Buffer
				s := runState(t, server, Config{
					Cluster: row.cluster, Kinds: []*KindInfo{&Servers.KindInfo}, Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				row.fail(servers, definitions)
				time.Sleep(2 * time.Second)
				if text := said(s); text != "" {
					t.Errorf("a problem at once: %s", text)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				text := said(s)
				if !strings.Contains(text, row.want) || !strings.HasSuffix(text, "what was known of this kind last is used until that goes well") || strings.Contains(text, "\n") {
					t.Errorf("problems %q", text)
				}
				if n := strings.Count(log.String(), "level=WARN"); n != 1 {
					t.Errorf("%d warnings, want one:\n%s", n, log.String())
				}
				if got := len(heldVersions(s)); got != 1 {
					t.Errorf("%d objects, want what was known", got)
				}
				servers.set(func() {
					servers.refused, servers.down = 0, false
					if servers.silent != nil {
						close(servers.silent)
						servers.silent = nil
					}
				})
				servers.put("ns", "b", serverSpec(2))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if text := said(s); text != "" {
					t.Errorf("problems after it is well again: %s", text)
				}
				if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" {
					t.Errorf("after it is well again (-want +got):\n%s", diff)
				}
			})
		})
	}
}
