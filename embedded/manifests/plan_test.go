package manifests

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// planKinds are those that the plans below know.
func planKinds(gvk schema.GroupVersionKind) (kind, bool) {
	switch gvk.Kind {
	case "ConfigMap", "Pod", "ServiceAccount", "Server":
		return kind{gvr: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), namespaced: true}, true
	case "Namespace", "ClusterRole", "CustomResourceDefinition", "ValidatingWebhookConfiguration":
		return kind{gvr: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")}, true
	}
	return kind{}, false
}

func planSource(t *testing.T, path, content string) *Source {
	t.Helper()
	source := &Source{Path: "/" + path, Shown: path}
	source.Objects, source.Faults, _ = parse(path, []byte(content), nil)
	if len(source.Faults) > 0 {
		source.broken = []byte(content)
	}
	return source
}

// applied is the record of the object that content has.
func applied(t *testing.T, path, content string) Record {
	t.Helper()
	o := planSource(t, path, content).Objects[0]
	return Record{Key: o.key(), Version: "v1", File: "/" + path, Hash: o.Hash}
}

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	long := now.Add(-time.Hour)
	a := configMap("a")
	crdKey := Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "routes.example.com"}
	route := "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: ns}\n"
	tests := []struct {
		name    string
		files   map[string]string
		records []Record
		edit    func(*state)
		want    string
		retry   time.Time
		coming  int
	}{
		{
			name:  "new, changed, unchanged",
			files: map[string]string{"a": cm("a", "1"), "b": cm("b", "2"), "c": cm("c", "1")},
			records: []Record{
				applied(t, "b", cm("b", "1")), applied(t, "c", cm("c", "1")),
			},
			want: `2 to apply, 0 to prune, 1 unchanged, 0 failed
  apply    ConfigMap ns/a  (a:1)
  apply    ConfigMap ns/b  (b:1)
`,
		},
		{
			name: "order of kinds",
			files: map[string]string{"a": docs(
				"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\n",
				"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n",
				"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: x}\n",
				crd("example.com", "Route", "routes"),
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
			)},
			want: `5 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    Namespace x  (a:18)
  apply    CustomResourceDefinition routes.example.com  (a:13)
  apply    ServiceAccount x/s  (a:9)
  apply    Pod x/p  (a:5)
  apply    ValidatingWebhookConfiguration w  (a:1)
`,
		},
		{
			name: "order of deletion",
			records: []Record{
				{Key: Key{Kind: "Namespace", Name: "x"}, File: "/a", Hash: "h"},
				{Key: Key{Kind: "Pod", Namespace: "x", Name: "p"}, File: "/a", Hash: "h"},
				{Key: Key{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: "w"}, File: "/a", Hash: "h"},
			},
			want: `0 to apply, 3 to prune, 0 unchanged, 0 failed
  prune    ValidatingWebhookConfiguration w  (/a)
  prune    Pod x/p  (/a)
  prune    Namespace x  (/a)
`,
		},
		{
			name:    "scope decides about the namespace",
			files:   map[string]string{"a": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "r": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, namespace: ns}\n"},
			records: []Record{},
			want: `2 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    ConfigMap default/a  (a:1)
  apply    ClusterRole r  (r:1)
`,
		},
		{
			name:    "moved",
			files:   map[string]string{"b": cm("a", "1")},
			records: []Record{applied(t, "a", cm("a", "1"))},
			want:    "0 to apply, 0 to prune, 1 unchanged, 0 failed\n",
		},
		{
			name:    "twice: the first counts",
			files:   map[string]string{"a": cm("a", "1"), "b": docs(cm("b", "1"), cm("a", "2"))},
			records: []Record{applied(t, "b", cm("b", "1"))},
			want: `1 to apply, 0 to prune, 1 unchanged, 1 failed
  apply    ConfigMap ns/a  (a:1)
  failed   b:9: ConfigMap ns/a: also defined at a:1, which is the one that counts
`,
		},
		{
			name:    "twice: the one that was applied stays",
			files:   map[string]string{"a": cm("a", "1"), "b": cm("a", "2")},
			records: []Record{applied(t, "b", cm("a", "2"))},
			want: `0 to apply, 0 to prune, 1 unchanged, 1 failed
  failed   a:1: ConfigMap ns/a: also defined at b:1, which is the one that counts
`,
		},
		{
			name:  "twice in one file",
			files: map[string]string{"a": docs(cm("a", "1"), cm("a", "2"))},
			want: `1 to apply, 0 to prune, 0 unchanged, 1 failed
  apply    ConfigMap ns/a  (a:1)
  failed   a:9: ConfigMap ns/a: also defined at a:1, which is the one that counts
`,
		},
		{
			name:    "gone a moment ago",
			records: []Record{applied(t, "a", cm("a", "1"))},
			edit: func(s *state) {
				s.changed = func(string) time.Time { return now.Add(-time.Millisecond) }
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed
  keep     ConfigMap ns/a  (/a: its file changed less than a second ago)
`,
			retry: now.Add(999 * time.Millisecond),
		},
		{
			name:    "its file is broken",
			files:   map[string]string{"a": "x: [\n"},
			records: []Record{applied(t, "a", cm("other", "1"))},
			want: `0 to apply, 0 to prune, 0 unchanged, 1 failed
  keep     ConfigMap ns/other  (/a: its file cannot be read as a manifest)
  failed   a:1: did not find expected node content
`,
		},
		{
			name:    "named in another file that is broken",
			files:   map[string]string{"b": "name: moving\nx: [\n"},
			records: []Record{applied(t, "a", cm("moving", "1")), applied(t, "a", cm("staying-away", "1"))},
			want: `0 to apply, 1 to prune, 0 unchanged, 1 failed
  prune    ConfigMap ns/staying-away  (/a)
  keep     ConfigMap ns/moving  (/a: it may have moved to b, which cannot be read as a manifest)
  failed   b:2: did not find expected node content
`,
		},
		{
			name:    "its directory is not seen",
			records: []Record{applied(t, "a", cm("a", "1"))},
			edit:    func(s *state) { s.held = func(string) string { return "its file cannot be seen now" } },
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed
  keep     ConfigMap ns/a  (/a: its file cannot be seen now)
`,
		},
		{
			name:    "of a directory that is not named in this run",
			records: []Record{applied(t, "foreign", cm("a", "1"))},
			want:    "0 to apply, 0 to prune, 0 unchanged, 0 failed\n",
		},
		{
			name: "undeletable, and kept by others",
			records: []Record{
				{Key: Key{Kind: "Namespace", Name: "default"}, File: "/a", Hash: "h"},
				{Key: Key{Kind: "Namespace", Name: "linkerd"}, File: "/a", Hash: "h"},
			},
			edit: func(s *state) {
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
				s.base = map[Key]Base{{Kind: "Namespace", Name: "linkerd"}: {u, "x"}}
			},
			want: `0 to apply, 2 to prune, 0 unchanged, 0 failed
  release  Namespace default  (/a)
  restore  Namespace linkerd  (/a)
`,
		},
		{
			name:  "kind unknown, brought by a CRD of the directory",
			files: map[string]string{"a": route, "b": crd("example.com", "Route", "routes")},
			want: `1 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  apply    CustomResourceDefinition routes.example.com  (b:1)
  waiting  a:1: Route.example.com ns/r: no such kind
`,
			coming: 1,
		},
		{
			name:  "kind unknown now: its record is not pruned",
			files: map[string]string{"a": strings.ReplaceAll(route, ", namespace: ns", "")},
			records: []Record{
				{Key: Key{Group: "example.com", Kind: "Route", Namespace: "default", Name: "r"}, File: "/a", Hash: "h"},
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  waiting  a:1: Route.example.com r: no such kind
`,
		},
		{
			name:  "the CRD of the kind is being deleted",
			files: map[string]string{"a": "apiVersion: policy.linkerd.io/v1\nkind: Server\nmetadata: {name: s, namespace: ns}\n"},
			edit: func(s *state) {
				s.leaving = func(k Key) bool {
					return k == Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: "servers.policy.linkerd.io"}
				}
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  waiting  a:1: Server.policy.linkerd.io ns/s: no such kind
`,
		},
		{
			name:  "its namespace is being deleted",
			files: map[string]string{"a": cm("a", "1")},
			edit:  func(s *state) { s.leaving = func(k Key) bool { return k == Key{Kind: "Namespace", Name: "ns"} } },
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  waiting  a:1: ConfigMap ns/a: namespace "ns" is being deleted; the object is applied when it exists again
`,
		},
		{
			name:  "failed a moment ago, and moved down in its file since",
			files: map[string]string{"a": "# comment\n" + cm("a", "1")},
			edit: func(s *state) {
				s.failures = map[Key]failure{a: {
					hash: s.sources[0].Objects[0].Hash, line: 1, next: now.Add(time.Second), transient: true,
					fault: Fault{File: "a", Line: 7, Object: a.String(), Message: "no"},
				}}
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 1 failed
  failed   a:8: ConfigMap ns/a: no
`,
			retry:  now.Add(time.Second),
			coming: 1,
		},
		{
			name:  "failed, but its time has come",
			files: map[string]string{"a": cm("a", "1")},
			edit: func(s *state) {
				s.failures = map[Key]failure{a: {hash: s.sources[0].Objects[0].Hash, next: now}}
			},
			want: `1 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    ConfigMap ns/a  (a:1)
`,
		},
		{
			name:  "failed, but changed since",
			files: map[string]string{"a": cm("a", "1")},
			edit: func(s *state) {
				s.failures = map[Key]failure{a: {hash: "other", next: now.Add(time.Hour)}}
			},
			want: `1 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    ConfigMap ns/a  (a:1)
`,
		},
		{
			name:  "deletion failed a moment ago",
			files: map[string]string{},
			records: []Record{
				{Key: crdKey, File: "/a", Hash: "h"},
			},
			edit: func(s *state) {
				s.failures = map[Key]failure{crdKey: {next: now.Add(time.Second), fault: Fault{Message: "prune: no"}}}
			},
			want:  "0 to apply, 0 to prune, 0 unchanged, 1 failed\n  failed   prune: no\n",
			retry: now.Add(time.Second),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := state{
				now: now, records: map[Key]Record{}, kind: planKinds,
				unknown: func(schema.GroupVersionKind) string { return "no such kind" },
				foreign: func(path string) bool { return path == "/foreign" },
				held:    func(string) string { return "" },
				changed: func(string) time.Time { return long },
				empty:   func(string) string { return "" },
				leaving: func(Key) bool { return false },
				check:   func(*unstructured.Unstructured) []Problem { return nil },
			}
			for _, path := range []string{"a", "b", "c", "r"} {
				if content, ok := test.files[path]; ok {
					s.sources = append(s.sources, planSource(t, path, content))
				}
			}
			for _, r := range test.records {
				s.records[r.Key] = r
			}
			if test.edit != nil {
				test.edit(&s)
			}
			plan := makePlan(s)
			if diff := cmp.Diff(test.want, plan.String()); diff != "" {
				t.Error(diff)
			}
			if !plan.retry.Equal(test.retry) {
				t.Errorf("retry at %v, want %v", plan.retry, test.retry)
			}
			if plan.coming != test.coming {
				t.Errorf("%d are coming, want %d", plan.coming, test.coming)
			}
		})
	}
}

func TestPlanMoves(t *testing.T) {
	record := applied(t, "a", cm("a", "1"))
	plan := makePlan(state{
		sources: []*Source{planSource(t, "b", cm("a", "1"))},
		records: map[Key]Record{record.Key: record}, kind: planKinds, leaving: func(Key) bool { return false },
	})
	want := record
	want.File = "/b"
	if diff := cmp.Diff([]Record{want}, plan.moved); diff != "" {
		t.Error(diff)
	}
}

func TestKeyString(t *testing.T) {
	tests := []struct {
		key  Key
		want string
	}{
		{Key{Kind: "Service", Namespace: "ns", Name: "a"}, "Service ns/a"},
		{Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}, "ClusterRole a"},
		{Key{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "a"}, "Deployment ns/a"},
		{Key{Group: "policy.linkerd.io", Kind: "HTTPRoute", Namespace: "ns", Name: "a"}, "HTTPRoute.policy.linkerd.io ns/a"},
		{Key{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "ns", Name: "a"}, "HTTPRoute.gateway.networking.k8s.io ns/a"},
	}
	for _, test := range tests {
		if got := test.key.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
