package e2e

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
)

// A Service's selector is flipped under an open stream: the new Pod's address
// comes before or with the end of the old one.
func TestSelectorFlips(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	rulebook.Covers(t, "B17")
	up := startInstance(t)
	p := &player{clusterClient: newClusterClient(t, up), t: t, namespace: "flip", known: map[string]bool{}}
	apply := func(doc string) {
		t.Helper()
		if err := p.apply(doc); err != nil {
			t.Fatal(err)
		}
	}
	service := func(name, colour string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {selector: {colour: " + colour + "}, ports: [{port: 80, targetPort: 8080}]}\n"
	}
	apply(service("web", "blue"))
	apply(service("next", "green"))
	for _, colour := range []string{"blue", "green"} {
		apply("apiVersion: v1\nkind: Pod\nmetadata: {name: " + colour + ", labels: {colour: " + colour + "}}\nspec: {containers: [{name: app, image: app}]}\n")
	}
	// A flip to Pods that are not ready would leave the Service without any.
	holding(t, p, "next").until("green")
	web := holding(t, p, "web")
	web.until("blue")
	apply(service("web", "green"))
	for !web.only("green") {
		if web.step(); len(web.pods) == 0 {
			t.Fatal("for a moment the client holds nothing")
		}
	}
}

// holder is a client of Get that knows which Pods it holds.
type holder struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[destination.Update]
	// pods are names by address.
	pods map[string]string
}

func holding(t *testing.T, p *player, service string) *holder {
	t.Helper()
	stream, err := destination.NewDestinationClient(p.conns["destination"]).Get(t.Context(), &destination.GetDestination{Path: service + "." + p.namespace + ".svc.cluster.local:80"})
	if err != nil {
		t.Fatal(err)
	}
	return &holder{t: t, stream: stream, pods: map[string]string{}}
}

// step takes one message.
func (h *holder) step() {
	h.t.Helper()
	u, err := h.stream.Recv()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, w := range u.GetAdd().GetAddrs() {
		h.pods[recorded.Render(w.GetAddr().ProtoReflect()).(string)] = w.GetMetricLabels()["pod"]
	}
	for _, a := range u.GetRemove().GetAddrs() {
		delete(h.pods, recorded.Render(a.ProtoReflect()).(string))
	}
}

func (h *holder) only(pod string) bool {
	for _, name := range h.pods {
		if name != pod {
			return false
		}
	}
	return len(h.pods) > 0
}

func (h *holder) until(pod string) {
	h.t.Helper()
	for !h.only(pod) {
		h.step()
	}
}
