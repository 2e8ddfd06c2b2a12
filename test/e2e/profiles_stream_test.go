package e2e

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// A refused ServiceProfile is not seen by a stream that is open: the next
// message is about the next good one.
func TestRefusedProfileTouchesNoStream(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := startInstance(t, "--without", "controllers,kubelet")
	_, client := i.objects()
	apply := func(resource schema.GroupVersionResource, text string) error {
		t.Helper()
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		_, err := client.Resource(resource).Namespace("default").Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test"})
		return err
	}
	if err := apply(schema.GroupVersionResource{Version: "v1", Resource: "services"},
		"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}"); err != nil {
		t.Fatal(err)
	}
	profile := func(route, timeout string) error {
		return apply(schema.GroupVersionResource{Group: "linkerd.io", Version: "v1alpha2", Resource: "serviceprofiles"},
			"{apiVersion: linkerd.io/v1alpha2, kind: ServiceProfile, metadata: {name: web.default.svc.cluster.local}, "+
				"spec: {routes: [{name: "+route+", condition: {method: GET}, timeout: "+timeout+"}]}}")
	}
	cc, err := grpc.NewClient("passthrough:///"+i.info.Addresses["destination"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	stream, err := destination.NewDestinationClient(cc).GetProfile(t.Context(), &destination.GetDestination{Path: "web.default.svc.cluster.local:80"})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if routes := message.GetRoutes(); len(routes) == 1 {
			got = routes[0].GetMetricsLabels()["route"]
		}
		if got != want {
			t.Errorf("the stream says route %q, want %q", got, want)
		}
	}
	next("")
	if err := profile("first", "1s"); err != nil {
		t.Fatal(err)
	}
	next("first")
	for range 3 {
		if err := profile("bad", "'10'"); err == nil {
			t.Fatal("a bad profile was stored")
		}
	}
	if err := profile("second", "2s"); err != nil {
		t.Fatal(err)
	}
	next("second")
}
