package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/etcd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

const (
	hostileMutations = 20_000
	// hostileRound is how many mutations there are between two ticks of the clock.
	hostileRound = 500
	// hostileMessages is how many each stream has at least, opened again or not.
	hostileMessages = 5
	// hostileSize is the most bytes of an object, well below what the API server itself stores.
	hostileSize = 128 << 10
	// tickWithin bounds the time after which a stream about other objects has the newest answer.
	tickWithin = time.Minute
	// hostileGoroutines and hostileHeap are how much more there may be after all mutations than after half of
	// them: requests under way, watches that are just being renewed, and etcd's index of its revisions.
	hostileGoroutines = 150
	hostileHeap       = 48 << 20
)

// storePlaces are where the API server keeps objects of built-in kinds in etcd.
var storePlaces = map[string]string{
	"services": "services/specs", "nodes": "minions", "pods": "pods", "secrets": "secrets", "namespaces": "namespaces",
	"endpointslices": "endpointslices", "replicasets": "replicasets", "jobs": "jobs", "serviceaccounts": "serviceaccounts",
}

// seed is an object as it should be.
type seed struct {
	key    string
	object map[string]any
	// typed is one of a built-in kind.
	typed bool
}

// hostile is a cluster whose store somebody else writes.
type hostile struct {
	*running
	t     *testing.T
	store *clientv3.Client
	seeds []seed
	clock seed
}

// What is in the store, whatever it is, ends neither the process nor the streams about other
// objects, is not kept for ever, and leaves no trace once it is mended. HOSTILE_SEED=N draws
// other objects.
func TestHostileObjects(t *testing.T) {
	testHostile(t, hostileMutations, true, PartControllers, PartGC, PartKubelet, PartInjector, PartWebhooks)
}

// The same with controllers and the kubelet, which meet the objects, too. A panic of theirs is a
// problem, and they go on.
func TestHostileObjectsWithControllers(t *testing.T) {
	// Controllers write what they take for right, and need not come to the same; and a ReplicaSet of
	// thousands has pods, which take memory and goroutines.
	testHostile(t, hostileMutations/5, false)
}

// A ReplicaSet of less than no pods, which no API server takes, makes the controller of ReplicaSets panic.
func TestControllerPanics(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	h := startHostile(t, PartKubelet, PartInjector, PartWebhooks)
	bad := h.seed("web-7d")
	bad.object = kruntime.DeepCopyJSON(bad.object)
	bad.object["spec"].(map[string]any)["replicas"] = int64(-1)
	h.put(bad)
	var said []problems.Problem
	eventually.Holds(t, "the panic is a problem", func() bool {
		said = slices.DeleteFunc(h.problems.List(), func(p problems.Problem) bool { return p.Source != "kubernetes" })
		return len(said) > 0
	}, nil)
	if text := said[0].String(); !strings.Contains(text, "slice bounds out of range") || !strings.Contains(text, "replica_set.go:") {
		t.Errorf("said: %s", text)
	}
	client := h.wait(t)
	good := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "good"}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "good"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		},
	}}
	if _, err := client.AppsV1().ReplicaSets("shop").Create(t.Context(), good, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "another ReplicaSet has its pod", func() bool {
		pods, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=good"})
		return err == nil && len(pods.Items) == 1
	}, nil)
	h.end(t)
}

// testHostile compares answers at the end with those at the start, and what is in use with what was after half of the
// mutations, if all is to be as before.
func testHostile(t *testing.T, mutations int, asBefore bool, without ...string) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	number := uint64(1)
	if text := os.Getenv("HOSTILE_SEED"); text != "" {
		var err error
		if number, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	h := startHostile(t, without...)
	clients := h.openStreams()
	h.tick(clients, 1)
	var before map[string]string
	if asBefore {
		before = clients.answers()
	}

	m := &mutator{rand.New(rand.NewPCG(number, 0))}
	var goroutines int
	var heap uint64
	for n := range mutations / hostileRound {
		for range hostileRound {
			h.mutate(m)
		}
		h.tick(clients, n+2)
		if n == mutations/hostileRound/2 {
			goroutines, heap = h.usage()
		}
	}
	h.mend()
	h.tick(clients, 1)
	for name, want := range before {
		var got string
		eventually.Holds(t, "the answer about "+name+" is right again", func() bool {
			got = clients.ask(name)
			return got == want
		}, func() string { return "got\n" + got + "\nwant\n" + want })
	}
	for _, p := range h.problems.List() {
		if p.Source != "kubernetes" && strings.Contains(p.Message, "a fault of linkerd-lite") {
			t.Errorf("still a fault: %s", p)
		}
	}
	atEnd, heapAtEnd := h.usage()
	clients.close()
	t.Logf("seed %d: %d goroutines, %d at the end; heap %d MiB, %d at the end; ends of streams %v",
		number, goroutines, atEnd, heap>>20, heapAtEnd>>20, clients.ends)
	if asBefore && atEnd > goroutines+hostileGoroutines {
		t.Errorf("%d goroutines, %d after half", atEnd, goroutines)
	}
	if asBefore && heapAtEnd > heap+hostileHeap {
		t.Errorf("heap of %d MiB, %d after half", heapAtEnd>>20, heap>>20)
	}
	for name := range before {
		if n := clients.messages[name]; n < hostileMessages {
			t.Errorf("%s had %d messages only: it saw nothing of all that", name, n)
		}
	}
	for code := range clients.ends {
		if code == codes.Internal || code == codes.Unknown {
			t.Errorf("a stream ended with %v", code)
		}
	}
	h.end(t)
}

// startHostile starts a cluster and stores the objects as they should be; then no definition checks anything.
func startHostile(t *testing.T, without ...string) *hostile {
	t.Helper()
	return startHostileOf(t, Config{Without: without})
}

func startHostileOf(t *testing.T, special Config) *hostile {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	h := &hostile{t: t, running: newRunningOf(t, special)}
	really, handlers, exit := utilruntime.ReallyCrash, utilruntime.PanicHandlers, klog.OsExit
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers, klog.OsExit = really, handlers, exit })
	h.TakeProcess(func() string { return "klog ends the process" })
	h.start()
	h.wait(t)
	socket, err := h.dir.SocketPath("etcd.sock", etcd.MaxSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	if h.store, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.store.Close() })
	h.storeSeeds()
	if t.Failed() {
		t.FailNow()
	}
	h.loosen()
	return h
}

func (h *hostile) storeSeeds() {
	client, err := dynamic.NewForConfig(h.own)
	if err != nil {
		h.t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(h.own)
	if err != nil {
		h.t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kinds))
	text, err := os.ReadFile("testdata/hostile.yaml")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			h.t.Fatal(err)
		}
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			h.t.Fatal(err)
		}
		resource := client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		options := metav1.ApplyOptions{FieldManager: "test", Force: true}
		stored, err := resource.Apply(h.t.Context(), object.GetName(), object, options)
		if _, has := object.Object["status"]; has && err == nil {
			stored, err = resource.ApplyStatus(h.t.Context(), object.GetName(), object, options)
		}
		if err != nil {
			h.t.Errorf("%s %s: %v", gvk.Kind, object.GetName(), err)
			continue
		}
		place, typed := storePlaces[mapping.Resource.Resource]
		if !typed {
			place = gvk.Group + "/" + mapping.Resource.Resource
		}
		stored.SetManagedFields(nil)
		stored.SetResourceVersion("")
		s := seed{path.Join("/registry", place, object.GetNamespace(), object.GetName()), stored.Object, typed}
		switch {
		case object.GetName() == "clock-1":
			h.clock = s
		case object.GetName() != "clock":
			h.seeds = append(h.seeds, s)
		}
	}
}

// seed is the object of that name, of the first kind that has one.
func (h *hostile) seed(name string) seed {
	return h.seeds[slices.IndexFunc(h.seeds, func(s seed) bool { return path.Base(s.key) == name })]
}

// loosen makes the definitions keep whatever is stored.
func (h *hostile) loosen() {
	client, err := dynamic.NewForConfig(h.own)
	if err != nil {
		h.t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	list, err := definitions.List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, definition := range list.Items {
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		for _, version := range versions {
			version.(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
		if err != nil {
			h.t.Fatal(err)
		}
		if _, err := definitions.Patch(h.t.Context(), definition.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			h.t.Fatalf("%s: %v", definition.GetName(), err)
		}
	}
}

// mutate spoils, deletes or mends an object.
func (h *hostile) mutate(m *mutator) {
	s := pick(m, h.seeds)
	switch n := m.IntN(10); {
	case n == 0:
		if _, err := h.store.Delete(h.t.Context(), s.key); err != nil {
			h.t.Fatal(err)
		}
	case n < 3:
		h.put(s)
	default:
		s.object = m.mutate(s.object, s.typed)
		h.put(s)
	}
}

// put stores an object behind the API server's back.
func (h *hostile) put(s seed) {
	h.t.Helper()
	data, err := json.Marshal(s.object)
	if err != nil {
		h.t.Fatal(err)
	}
	if s.typed {
		// What cannot be decoded was not changed in a way that the API server itself could store.
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return
		}
		var encoded bytes.Buffer
		if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &encoded); err != nil {
			h.t.Fatal(err)
		}
		data = encoded.Bytes()
	}
	if len(data) > hostileSize {
		return
	}
	if _, err := h.store.Put(h.t.Context(), s.key, string(spoil(data))); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hostile) mend() {
	for _, s := range h.seeds {
		h.put(s)
	}
}

// tick changes the port of a Service of its own, and waits until a stream says so.
func (h *hostile) tick(c *clients, n int) {
	h.t.Helper()
	clock := seed{h.clock.key, kruntime.DeepCopyJSON(h.clock.object), true}
	port := 1000 + n
	clock.object["ports"].([]any)[0].(map[string]any)["port"] = int64(port)
	h.put(clock)
	eventually.Holds(h.t, fmt.Sprintf("the stream about the clock has port %d", port), func() bool {
		select {
		case err := <-h.ended:
			h.t.Fatalf("the cluster has ended: %v", err)
		default:
		}
		return c.time() == port
	}, nil)
}

// usage is the number of goroutines, and the live heap in bytes.
func (h *hostile) usage() (goroutines int, heap uint64) {
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return runtime.NumGoroutine(), stats.HeapAlloc
}
