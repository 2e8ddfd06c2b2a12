package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// planKinds are those that the plans below know.
func planKinds(gvk schema.GroupVersionKind) (Kind, bool) {
	switch gvk.Kind {
	case "ConfigMap", "Pod", "ServiceAccount", "Server":
		return Kind{GVR: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: true}, true
	case "Namespace", "ClusterRole", "CustomResourceDefinition", "ValidatingWebhookConfiguration",
		"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return Kind{GVR: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")}, true
	}
	return Kind{}, false
}

func planSource(path, content string) *source.Source {
	return source.New("/"+path, path, []byte(content))
}

// applied is the record of the object that content has.
func applied(t *testing.T, path, content string) Record {
	t.Helper()
	o := planSource(path, content).Objects[0]
	return Record{Key: o.Key(), Version: "v1", File: "/" + path, Hash: o.Hash}
}

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	long := now.Add(-time.Hour)
	a := source.Key{Kind: "ConfigMap", Namespace: "ns", Name: "a"}
	crdKey := source.Key{Group: CRDKind.Group, Kind: CRDKind.Kind, Name: "routes.example.com"}
	route := "apiVersion: example.com/v1\nkind: Route\nmetadata: {name: r, namespace: ns}\n"
	tests := []struct {
		name    string
		files   map[string]string
		records []Record
		edit    func(*Input)
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
			name:    "C1, B80: what the program keeps itself is left alone, and given up where it was applied before",
			files:   map[string]string{"a": docs(cm("mine", "1"), cm("theirs", "1"), cm("theirs2", "1")), "b": cm("shared", "1")},
			records: []Record{applied(t, "old", cm("theirs", "0")), applied(t, "old", cm("gone", "0"))},
			edit: func(in *Input) {
				in.Owned = map[source.Key]Ownership{}
				for name, ownership := range map[string]Ownership{"theirs": Exclusive, "theirs2": Exclusive, "shared": Shared, "gone": Shared} {
					in.Owned[source.Key{Kind: "ConfigMap", Namespace: "ns", Name: name}] = ownership
				}
			},
			want: `2 to apply, 2 to prune, 0 unchanged, 0 failed
  apply    ConfigMap ns/mine  (a:1)
  apply    ConfigMap ns/shared  (b:1)
  release  ConfigMap ns/gone  (/old)
  release  ConfigMap ns/theirs  (/old)
  warning  a: not applied, as linkerd-lite keeps these itself: ConfigMap ns/theirs, ConfigMap ns/theirs2; remove them here, or leave them, nothing depends on it
`,
		},
		{
			name: "C2: of many objects that the program keeps itself a notice has the kinds",
			files: map[string]string{"a": docs(cm("a", "1"), cm("b", "1"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
				cm("c", "1"), "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: x}\n", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: t, namespace: x}\n")},
			edit: func(in *Input) {
				in.Owned = map[source.Key]Ownership{}
				for _, o := range in.Sources[0].Objects {
					in.Owned[o.Key()] = Exclusive
				}
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed
  warning  a: not applied, as linkerd-lite keeps these itself: 3 ConfigMaps, Namespace x, 2 ServiceAccounts; remove them here, or leave them, nothing depends on it
`,
		},
		{
			name: "B85: what judges others comes first, but for webhooks whose server may be among the rest",
			files: map[string]string{"a": docs(
				"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: [{name: u, clientConfig: {url: 'https://127.0.0.1:1/'}}, {name: s, clientConfig: {service: {name: s, namespace: x}}}]\n",
				"apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n",
				"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: x}\n",
				crd("example.com", "Route", "routes"),
				"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n",
				"apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: m}\nwebhooks: [{name: u, clientConfig: {url: 'https://127.0.0.1:1/'}}]\n",
				"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\n",
				"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n",
			)},
			want: `8 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    MutatingWebhookConfiguration m  (a:23)
  apply    ValidatingAdmissionPolicy p  (a:28)
  apply    ValidatingAdmissionPolicyBinding b  (a:32)
  apply    Namespace x  (a:19)
  apply    CustomResourceDefinition routes.example.com  (a:14)
  apply    ServiceAccount x/s  (a:10)
  apply    Pod x/p  (a:6)
  apply    ValidatingWebhookConfiguration w  (a:1)
`,
		},
		{
			name: "order of deletion",
			records: []Record{
				{Key: source.Key{Kind: "Namespace", Name: "x"}, File: "/a", Hash: "h"},
				{Key: source.Key{Kind: "Pod", Namespace: "x", Name: "p"}, File: "/a", Hash: "h"},
				{Key: source.Key{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration", Name: "w"}, File: "/a", Hash: "h"},
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
			edit: func(s *Input) {
				s.Places["/a"] = source.Place{Shown: "/a", Changed: now.Add(-time.Millisecond)}
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
			edit:    func(s *Input) { s.Places["/a"] = source.Place{Shown: "/a", Held: "its file cannot be seen now"} },
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed
  keep     ConfigMap ns/a  (/a: its file cannot be seen now)
`,
		},
		{
			name:    "its directory has no objects any more (F3)",
			records: []Record{applied(t, "a", cm("a", "1")), applied(t, "a", cm("b", "1"))},
			edit:    func(s *Input) { s.Places["/a"] = source.Place{Shown: "/a", Empty: "dir", Changed: long} },
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed
  keep     ConfigMap ns/a  (/a: dir has no objects any more)
  keep     ConfigMap ns/b  (/a: dir has no objects any more)
  warning  dir: no objects are left here, and the 2 that came from here stay as they are: put the files back, or start again with --prune-empty to delete what they had
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
				{Key: source.Key{Kind: "Namespace", Name: "default"}, File: "/a", Hash: "h"},
				{Key: source.Key{Kind: "Namespace", Name: "linkerd"}, File: "/a", Hash: "h"},
			},
			edit: func(s *Input) {
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
				s.Base = map[source.Key]Base{{Kind: "Namespace", Name: "linkerd"}: {u, "x"}}
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
				{Key: source.Key{Group: "example.com", Kind: "Route", Namespace: "default", Name: "r"}, File: "/a", Hash: "h"},
			},
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  waiting  a:1: Route.example.com r: no such kind
`,
		},
		{
			name:  "its namespace is being deleted",
			files: map[string]string{"a": cm("a", "1")},
			edit:  func(s *Input) { s.Leaving = map[source.Key]bool{{Kind: "Namespace", Name: "ns"}: true} },
			want: `0 to apply, 0 to prune, 0 unchanged, 0 failed, 1 waiting
  waiting  a:1: ConfigMap ns/a: namespace "ns" is being deleted; the object is applied when it exists again
`,
		},
		{
			name:  "failed a moment ago, and moved down in its file since",
			files: map[string]string{"a": "# comment\n" + cm("a", "1")},
			edit: func(s *Input) {
				s.Failures = map[source.Key]Failure{a: {
					Hash: s.Sources[0].Objects[0].Hash, Line: 1, Next: now.Add(time.Second), Transient: true,
					Fault: problems.Problem{File: "a", Line: 7, Object: a.Object(), Message: "no"},
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
			edit: func(s *Input) {
				s.Failures = map[source.Key]Failure{a: {Hash: s.Sources[0].Objects[0].Hash, Next: now}}
			},
			want: `1 to apply, 0 to prune, 0 unchanged, 0 failed
  apply    ConfigMap ns/a  (a:1)
`,
		},
		{
			name:  "failed, but changed since",
			files: map[string]string{"a": cm("a", "1")},
			edit: func(s *Input) {
				s.Failures = map[source.Key]Failure{a: {Hash: "other", Next: now.Add(time.Hour)}}
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
			edit: func(s *Input) {
				s.Failures = map[source.Key]Failure{crdKey: {Next: now.Add(time.Second), Fault: problems.Problem{Message: "prune: no"}}}
			},
			want:  "0 to apply, 0 to prune, 0 unchanged, 1 failed\n  failed   prune: no\n",
			retry: now.Add(time.Second),
		},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			s := Input{
				Now: now, Records: map[source.Key]Record{}, Kinds: map[schema.GroupVersionKind]Kind{},
				Unknown: map[schema.GroupVersionKind]string{},
				Places:  map[string]source.Place{"/a": {Shown: "/a", Changed: long}, "/old": {Shown: "/old"}, "/foreign": {Foreign: true}},
			}
			for _, path := range []string{"a", "b", "c", "r"} {
				if content, ok := test.files[path]; ok {
					s.Sources = append(s.Sources, planSource(path, content))
				}
			}
			for _, r := range test.records {
				s.Records[r.Key] = r
			}
			for _, src := range s.Sources {
				for _, o := range src.Objects {
					gvk := o.Unstructured.GroupVersionKind()
					if served, ok := planKinds(gvk); ok {
						s.Kinds[gvk] = served
					} else {
						s.Unknown[gvk] = "no such kind"
					}
				}
			}
			if test.edit != nil {
				test.edit(&s)
			}
			plan := Make(s)
			if diff := cmp.Diff(test.want, plan.String()); diff != "" {
				t.Error(diff)
			}
			if !plan.Retry.Equal(test.retry) {
				t.Errorf("retry at %v, want %v", plan.Retry, test.retry)
			}
			if plan.Coming != test.coming {
				t.Errorf("%d are coming, want %d", plan.Coming, test.coming)
			}
		})
	}
}

func TestPlanMoves(t *testing.T) {
	record := applied(t, "a", cm("a", "1"))
	plan := Make(Input{
		Sources: []*source.Source{planSource("b", cm("a", "1"))}, Records: map[source.Key]Record{record.Key: record},
		Kinds: map[schema.GroupVersionKind]Kind{{Version: "v1", Kind: "ConfigMap"}: {Namespaced: true}},
	})
	want := record
	want.File = "/b"
	if diff := cmp.Diff([]Record{want}, plan.Moved); diff != "" {
		t.Error(diff)
	}
}

func TestKeyString(t *testing.T) {
	tests := []struct {
		key  source.Key
		want string
	}{
		{source.Key{Kind: "Service", Namespace: "ns", Name: "a"}, "Service ns/a"},
		{source.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}, "ClusterRole a"},
		{source.Key{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "a"}, "Deployment ns/a"},
		{source.Key{Group: "policy.linkerd.io", Kind: "HTTPRoute", Namespace: "ns", Name: "a"}, "HTTPRoute.policy.linkerd.io ns/a"},
		{source.Key{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "ns", Name: "a"}, "HTTPRoute.gateway.networking.k8s.io ns/a"},
	}
	for _, test := range tests {
		if got := test.key.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func cm(name, v string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: ns\ndata:\n  v: %q\n", name, v)
}

func docs(parts ...string) string { return strings.Join(parts, "---\n") }

// crd is a definition with as much as a plan reads of it.
func crd(group, kind, plural string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec: {group: %s, names: {kind: %s, plural: %s}, scope: Namespaced, versions: [{name: v1}]}
`, plural, group, group, kind, plural)
}

// BenchmarkPlan is that of a thousand objects of which none has changed.
func BenchmarkPlan(b *testing.B) {
	in := Input{Records: map[source.Key]Record{}, Kinds: map[schema.GroupVersionKind]Kind{{Version: "v1", Kind: "ConfigMap"}: {Namespaced: true}}}
	for i := range 1000 {
		src := planSource(fmt.Sprint(i), cm(fmt.Sprint("c", i), "1"))
		key := src.Objects[0].Key()
		in.Sources = append(in.Sources, src)
		in.Records[key] = Record{Key: key, File: src.Path, Hash: src.Objects[0].Hash}
	}
	for b.Loop() {
		if plan := Make(in); plan.Unchanged != 1000 {
			b.Fatal(plan)
		}
	}
}
