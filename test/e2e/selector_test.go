package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
)

// A Service's selector is flipped under an open stream: the new Pod's address
// comes before or with the end of the old one.
func TestSelectorFlips(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	t.Run("B17", func(t *testing.T) {
		up := startInstance(t)
		p := &player{clusterClient: newClusterClient(t, up), t: t, namespace: "flip", known: map[string]bool{}}
		apply := func(doc string) {
			t.Helper()
			if err := p.apply(doc); err != nil {
				t.Fatal(err)
			}
		}
		service := func(colour string) string {
			return "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {colour: " + colour + "}, ports: [{port: 80, targetPort: 8080}]}\n"
		}
		apply(service("blue"))
		for _, colour := range []string{"blue", "green"} {
			apply("apiVersion: v1\nkind: Pod\nmetadata: {name: " + colour + ", labels: {colour: " + colour + "}}\nspec: {containers: [{name: app, image: app}]}\n")
		}
		client := destination.NewDestinationClient(p.conns["destination"])
		stream, err := client.Get(t.Context(), &destination.GetDestination{Path: "web.flip.svc.cluster.local:80"})
		if err != nil {
			t.Fatal(err)
		}
		held := map[string]string{}
		// step takes one message and returns the pods that the client holds then.
		step := func() map[string]bool {
			u, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range u.GetAdd().GetAddrs() {
				held[recorded.Render(w.GetAddr().ProtoReflect()).(string)] = w.GetMetricLabels()["pod"]
			}
			for _, a := range u.GetRemove().GetAddrs() {
				delete(held, recorded.Render(a.ProtoReflect()).(string))
			}
			pods := map[string]bool{}
			for _, pod := range held {
				pods[pod] = true
			}
			return pods
		}
		for pods := step(); !cmp.Equal(pods, map[string]bool{"blue": true}); pods = step() {
		}
		apply(service("green"))
		for pods := step(); !cmp.Equal(pods, map[string]bool{"green": true}); pods = step() {
			if len(pods) == 0 {
				t.Fatal("for a moment the client holds nothing")
			}
		}
	})
}
