package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
	"github.com/linkerd-lite/linkerd-lite/test/series"
)

// cluster is objects with their status, as an API server holds them, and the
// State of one or more writers that watch it.
type cluster struct {
	t testing.TB

	mu      sync.Mutex
	version int
	objects map[string]map[string]any
	born    map[string]string
	states  []*state.State
	patches []string
	// refuse, if set, is called before each patch, and may refuse it.
	refuse func(name string) error
	// hold, if set and true for a patch, keeps its result from being seen.
	hold   func() bool
	leases *fake.Clientset
}

func newCluster(t testing.TB) *cluster {
	return &cluster{t: t, objects: map[string]map[string]any{}, born: map[string]string{}, leases: fake.NewClientset()}
}

// member is one control plane of the cluster.
type member struct {
	*Writer
	graph    *view.Graph
	registry *prometheus.Registry
	log      *bytes.Buffer
}

func (c *cluster) join(identity string) *member {
	c.t.Helper()
	m := &member{registry: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	table, err := problems.New(problems.Config{Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	st, err := state.New(state.Config{Cluster: state.LocalCluster, Kinds: state.LocalKinds(true), Problems: table})
	if err != nil {
		c.t.Fatal(err)
	}
	m.graph = view.NewGraph(st)
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		version, err := c.patch(action.(clienttesting.PatchAction))
		if err != nil {
			return true, nil, err
		}
		patched := &unstructured.Unstructured{}
		patched.SetResourceVersion(version)
		return true, patched, nil
	})
	m.Writer, err = New(Config{
		State: st, Graph: m.graph, Routes: gateway.New(st), Client: client, Kube: c.leases, Identity: identity,
		Settings: linkerd.DefaultSettings(), Registerer: m.registry,
		Log: log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	st.MarkSynced()
	c.states = append(c.states, st)
	return m
}

// apply stores the objects of YAML streams.
func (c *cluster) apply(docs ...string) {
	c.t.Helper()
	for _, doc := range objects.Documents(docs...) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			c.t.Fatalf("%v in:\n%s", err, doc)
		}
		c.mu.Lock()
		c.store(object)
		c.mu.Unlock()
	}
}

// store gives an object its version and hands it to all States. An object
// without status keeps the one it had. The lock is held.
func (c *cluster) store(object map[string]any) {
	c.t.Helper()
	meta := object["metadata"].(map[string]any)
	key := keyOf(object)
	if old, ok := c.objects[key]; ok && object["status"] == nil && old["status"] != nil {
		object["status"] = old["status"]
	}
	c.version++
	if meta["creationTimestamp"] == nil {
		if c.born[key] == "" {
			c.born[key] = fmt.Sprintf("2026-01-01T%02d:%02d:%02dZ", c.version/3600, c.version/60%60, c.version%60)
		}
		meta["creationTimestamp"] = c.born[key]
	}
	meta["uid"] = meta["creationTimestamp"]
	meta["resourceVersion"] = fmt.Sprint(c.version)
	c.objects[key] = object
	for _, st := range c.states {
		put(c.t, st, object)
	}
}

// keyOf is "kind/namespace/name".
func keyOf(object map[string]any) string {
	meta := object["metadata"].(map[string]any)
	return fmt.Sprintf("%s/%s/%s", keyKind(object), meta["namespace"], meta["name"])
}

func put(t testing.TB, st *state.State, object map[string]any) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Put(st, objects.Name(t, string(text)), string(text), nil); err != nil {
		t.Fatal(err)
	}
}

func keyKind(object map[string]any) string {
	kind := object["kind"].(string)
	if version, _ := object["apiVersion"].(string); kind == "HTTPRoute" && strings.HasPrefix(version, apis.Group) {
		return "policy HTTPRoute"
	}
	return kind
}

// remove forgets an object; routes of Linkerd's own are of kind "policy HTTPRoute".
func (c *cluster) remove(kind, namespace, name string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := namespace + "/" + name
	delete(c.objects, kind+"/"+key)
	switch kind {
	case "policy HTTPRoute":
		kind = "HTTPRoute"
	case "HTTPRoute":
		kind = "GatewayHTTPRoute"
	}
	for _, st := range c.states {
		if err := objects.Remove(st, kind+"/"+key); err != nil {
			c.t.Fatal(err)
		}
	}
}

// patch is the API server's side of a merge patch of a status. It returns the
// version that the object has then.
func (c *cluster) patch(action clienttesting.PatchAction) (string, error) {
	if action.GetSubresource() != "status" || action.GetPatchType() != types.MergePatchType {
		return "", fmt.Errorf("patch of %q as %s", action.GetSubresource(), action.GetPatchType())
	}
	var body struct {
		APIVersion, Kind string
		Metadata         struct{ ResourceVersion string }
		Status           map[string]any
	}
	if err := json.Unmarshal(action.GetPatch(), &body); err != nil {
		return "", err
	}
	if c.refuse != nil {
		if err := c.refuse(action.GetName()); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%s/%s/%s", keyKind(map[string]any{"apiVersion": body.APIVersion, "kind": body.Kind}), action.GetNamespace(), action.GetName())
	resource := action.GetResource().GroupResource()
	object, ok := c.objects[key]
	if !ok {
		return "", apierrors.NewNotFound(resource, action.GetName())
	}
	meta := object["metadata"].(map[string]any)
	if body.Metadata.ResourceVersion != meta["resourceVersion"] {
		return "", apierrors.NewConflict(resource, action.GetName(), fmt.Errorf("version %s is not %v", body.Metadata.ResourceVersion, meta["resourceVersion"]))
	}
	updated := maps.Clone(object)
	updated["metadata"] = maps.Clone(meta)
	merged := map[string]any{}
	if old, ok := object["status"].(map[string]any); ok {
		merged = maps.Clone(old)
	}
	maps.Copy(merged, body.Status)
	updated["status"] = merged
	if c.hold != nil && c.hold() {
		return fmt.Sprint(c.version + 1), nil
	}
	c.patches = append(c.patches, body.Kind+"/"+action.GetName())
	c.store(updated)
	return fmt.Sprint(c.version), nil
}

// patched returns how many patches there have been.
func (c *cluster) patched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.patches)
}

// settle writes what is to be written, without a Lease, until nothing is. It
// fails if that takes more rounds than there are dependencies.
func (m *member) settle(c *cluster) {
	c.t.Helper()
	for range 5 {
		due := m.due()
		if len(due) == 0 {
			return
		}
		for key, p := range due {
			if _, err := m.send(c.t.Context(), key, p); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.t.Fatal("the status does not settle")
}

// due returns what is to be written now, computed anew.
func (m *member) due() map[reconcile.Key]plan {
	snapshot := m.config.State.Snapshot()
	due := map[reconcile.Key]plan{}
	for _, kind := range m.index.kinds() {
		for key := range snapshot.Keys(kind) {
			namespace, name, _ := strings.Cut(key, "/")
			key := reconcile.Key{Kind: kind, Namespace: namespace, Name: name}
			if p := m.plan(&view.Reader{Reader: snapshot.Reader()}, key, nil); !p.Empty() {
				due[key] = p
			}
		}
	}
	return due
}

// status is the summary of an object's status, a line per entry.
func (c *cluster) status(kind, name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.objects {
		meta := object["metadata"].(map[string]any)
		if keyKind(object) == kind && meta["name"] == name {
			text, err := json.Marshal(object["status"])
			if err != nil {
				c.t.Fatal(err)
			}
			return statusText(text)
		}
	}
	return "no such object"
}

func statusText(text []byte) string {
	var s struct {
		Parents    []gatewayv1.RouteParentStatus
		Conditions []metav1.Condition
		TargetRef  *policyv1alpha1.StatusTargetRef
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return err.Error()
	}
	var lines []string
	for _, p := range s.Parents {
		ref := fmt.Sprintf("%s/%s/%s/%s", ptr.Deref(p.ParentRef.Group, ""), ptr.Deref(p.ParentRef.Kind, ""), ptr.Deref(p.ParentRef.Namespace, ""), p.ParentRef.Name)
		if p.ParentRef.Port != nil {
			ref += fmt.Sprint(":", *p.ParentRef.Port)
		}
		if p.ParentRef.SectionName != nil {
			ref += "#" + string(*p.ParentRef.SectionName)
		}
		if p.ControllerName != linkerd.PolicyControllerName {
			ref = string(p.ControllerName) + " " + ref
		}
		lines = append(lines, ref+conditionsText(p.Conditions))
	}
	if s.TargetRef != nil {
		lines = append(lines, fmt.Sprintf("%s/%s/%s", s.TargetRef.Group, s.TargetRef.Kind, s.TargetRef.Name))
	}
	if len(s.Conditions) > 0 {
		lines = append(lines, strings.TrimSpace(conditionsText(s.Conditions)))
	}
	return strings.Join(lines, "\n")
}

func conditionsText(conditions []metav1.Condition) string {
	var text string
	for _, c := range conditions {
		text += fmt.Sprintf(" %s=%s(%s)", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			text += fmt.Sprintf("%q", c.Message)
		}
	}
	return text
}

// metric returns the value of a counter or of a histogram's count, -1 without either.
func (m *member) metric(t testing.TB, name string) float64 {
	t.Helper()
	if sum, found := series.Sum(t, m.registry, name, nil); found {
		return sum
	}
	return -1
}

// scenario runs a test in a synctest bubble, with the numbers of what it shows for a name.
func scenario(t *testing.T, name string, run func(t *testing.T)) {
	t.Helper()
	rulebook.Run(t, name, func(t *testing.T) { synctest.Test(t, run) })
}
