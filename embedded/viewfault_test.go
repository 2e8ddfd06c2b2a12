package embedded

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// newEndpoint is 10.244.9.2 as messages have it.
const newEndpoint = "183765250"

// faultyLabel of a Service makes all views about it panic.
const faultyLabel = "test/faulty"

// panicAtFaulty panics in views of all that is called web while the Service
// shop/web has the label. It reads the Service as the view's own function would.
func panicAtFaulty(r *view.Reader, _, key string) {
	if !strings.Contains(key, "web") {
		return
	}
	if service, ok := state.Get(r.Reader, state.Services, "shop", "web"); ok && service.Labels[faultyLabel] != "" {
		panic("faulty label")
	}
}

// All functions of views panic that have to do with one Service: streams of others go on, those of the Service keep
// what they have, check names it, and once it is mended the answers are right again.
func TestViewsPanicForOneObject(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	h := startHostileOf(t, Config{Without: []string{PartControllers, PartGC, PartKubelet, PartInjector, PartWebhooks}, beforeView: panicAtFaulty})
	clients := h.openStreams()
	h.tick(clients, 1)
	before := clients.answers()
	// said is what check says of the Service.
	said := func() (said []string) {
		report, err := diagnostics.NewCheckReport(diagnostics.WaitReady(t.Context(), h.dir.Path(), true))
		if err != nil {
			t.Fatal(err)
		}
		for _, category := range report.Categories {
			for _, check := range category.Checks {
				if category.Name == "objects" && check.Description == "Service shop/web" {
					said = append(said, check.Error)
				}
			}
		}
		return said
	}

	web := h.seed("web")
	h.put(faulty(web))
	for _, source := range []string{"destination", "inbound", "outbound"} {
		eventually.Holds(t, "check names the Service, for "+source, func() bool {
			for _, text := range said() {
				if strings.Contains(text, "faulty label (at viewfault_test.go:") && strings.Contains(text, "in the view "+source+"/") &&
					strings.Contains(text, "those who follow it keep its last version ("+source+", since ") {
					return true
				}
			}
			return false
		}, func() string { return strings.Join(said(), "\n") })
	}
	h.tick(clients, 2)
	for name, want := range before {
		if strings.Contains(name, "clock") {
			continue // has told another time meanwhile
		}
		// A view that nobody has held so far has no version to keep.
		if got := clients.ask(name); got != want && got != codes.Unavailable.String() {
			t.Errorf("meanwhile %s:\n%s\nwant what streams have that are open:\n%s", name, got, want)
		}
	}

	// What is new once it is mended comes to the streams that were open all the time.
	slice := h.seed("web-1")
	slice.object = runtime.DeepCopyJSON(slice.object)
	slice.object["endpoints"].([]any)[0].(map[string]any)["addresses"] = []any{"10.244.9.2"}
	messages := clients.count("Get web.shop.svc.cluster.local:80")
	h.put(slice)
	h.tick(clients, 3)
	if n := clients.count("Get web.shop.svc.cluster.local:80"); n != messages {
		t.Errorf("%d messages about endpoints of a view that panics", n-messages)
	}
	h.put(web)
	eventually.Holds(t, "the stream has the new endpoint", func() bool {
		return clients.count("Get web.shop.svc.cluster.local:80") > messages && strings.Contains(clients.ask("Get web.shop.svc.cluster.local:80"), newEndpoint)
	}, func() string { return clients.ask("Get web.shop.svc.cluster.local:80") })
	h.mend()
	h.tick(clients, 1)
	for name, want := range before {
		var got string
		eventually.Holds(t, "the answer about "+name+" is right again", func() bool {
			got = clients.ask(name)
			return got == want
		}, func() string { return "got\n" + got + "\nwant\n" + want })
	}
	if left := said(); len(left) > 0 {
		t.Errorf("check still says %q", left)
	}
	clients.close()
	if len(clients.ends) > 0 {
		t.Errorf("streams ended: %v", clients.ends)
	}
	h.end(t)
}

func faulty(s seed) seed {
	s.object = runtime.DeepCopyJSON(s.object)
	s.object["metadata"].(map[string]any)["labels"] = map[string]any{faultyLabel: "yes"}
	return s
}
