package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// summary is what a parse gave, a line per object and per fault.
func summary(objects []Object, faults []problems.Problem) []string {
	lines := []string{}
	for _, o := range objects {
		lines = append(lines, fmt.Sprintf("%d %s", o.Line, o.Key()))
	}
	for _, f := range faults {
		lines = append(lines, Text(f))
	}
	return lines
}

func TestParse(t *testing.T) {
	a, b := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
	tests := []struct {
		name, file, content string
		want                []string
	}{
		{"one", "", a, []string{"1 ConfigMap a"}},
		{"several Documents", "", a + "---\n" + b, []string{"1 ConfigMap a", "5 ConfigMap b"}},
		{"markers with comments, spaces and carriage returns", "", "--- # first\r\n# more\n" + a + "---  \n\n" + b + "...\n", []string{"3 ConfigMap a", "8 ConfigMap b"}},
		{"a document on the line of its marker", "", "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", []string{"1 ConfigMap a"}},
		{"a marker inside a block is text", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n", []string{"1 ConfigMap a"}},
		{"directive", "", "%YAML 1.1\n---\n" + a, []string{"3 ConfigMap a"}},
		{"byte order mark", "", "\ufeff" + a, []string{"1 ConfigMap a"}},
		{"nothing", "", "", []string{}},
		{"comments, empty Documents, null", "", "# a\n---\n---\n# b\n---\nnull\n", []string{}},
		{"anchors", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: &n a, namespace: *n}\n", []string{"1 ConfigMap a/a"}},
		{"list", "", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n", []string{"4 ConfigMap a", "7 Secret b"}},
		{"B83: list of nothing", "", "apiVersion: v1\nkind: List\nitems:\n---\n" + a, []string{"5 ConfigMap a"}},
		{"B83: list of null", "", "apiVersion: v1\nkind: ServiceList\nitems: null\n", []string{}},
		{"B81: merge with an override", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &base {x: '1', y: '1'}, annotations: {<<: *base, y: '2'}}\n", []string{"1 ConfigMap a"}},
		{"B81: merge of two with one key", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  p: &p {x: '1'}\n  q: &q {x: '2'}\n  r: {<<: [*p, *q]}\n", []string{"1 ConfigMap a"}},
		{"B81: item of a list with other metadata", "", "apiVersion: v1\nkind: List\nitems:\n- &web {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- <<: *web\n  metadata: {name: b}\n", []string{"4 ConfigMap a", "5 ConfigMap b"}},
		{"B81: marker with a tab", "", "---\t# first\n" + a + "---\t\n" + b, []string{"2 ConfigMap a", "6 ConfigMap b"}},
		{"B81: byte order mark before a later document", "", a + "---\n\ufeff" + b + "\ufeff---\n" + a, []string{"1 ConfigMap a", "5 ConfigMap b", "9 ConfigMap a"}},
		{"B81: a key twice beside a merge stays an error", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: &l {x: '1'}}\ndata:\n  <<: *l\n  k: '1'\n  k: '2'\n", []string{`x.yaml:7: key "k" already set in map`}},
		{"typed list whose items do not say what they are", "", "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n", []string{"4 Service a"}},
		{"list in a list", "", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: Secret, metadata: {name: b}}\n", []string{"4 Secret b"}},
		{"JSON", "x.json", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`, []string{"1 ConfigMap a"}},
		{"JSON objects in a row, with tabs", "x.json", "{\"apiVersion\": \"v1\",\n\t\"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\"}}\n\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}}\n", []string{"1 ConfigMap a", "4 ConfigMap b"}},
		{"JSON with tabs in a YAML file", "", "{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}\n", []string{"1 ConfigMap a"}},

		{"syntax error in the second document", "", a + "---\na: b: c\n", []string{"x.yaml:5: mapping values are not allowed in this context"}},
		{"bad indentation", "", "a: b\nc:\n  - x\n y: 1\n", []string{"x.yaml:4: did not find expected key"}},
		{"flow that does not end", "", "a: [1\n", []string{"x.yaml:1: did not find expected ',' or ']'"}},
		{"tab", "", "a:\n\tb: c\n", []string{"x.yaml:2: found character that cannot start any token"}},
		{"duplicate key", "", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n", []string{`x.yaml:5: key "name" already set in map`}},
		{"two faults", "", "x: 1\n---\n" + a + "---\nkind: A\n", []string{"x.yaml:1: not a Kubernetes object: it has neither apiVersion nor kind", "x.yaml:7: A: apiVersion is missing"}},
		{"cut off", "", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  na\n", []string{"x.yaml:1: ConfigMap: metadata is text: expected a mapping"}},
		{"cut off earlier", "", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n", []string{"x.yaml:1: ConfigMap: metadata is missing"}},
		{"no name", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n", []string{"x.yaml:1: ConfigMap: metadata.name is missing"}},
		{"generated name", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", []string{"x.yaml:1: ConfigMap: metadata.generateName is set but metadata.name is missing: an object that is applied again and again needs a fixed name"}},
		{"no kind", "", "apiVersion: v1\nmetadata: {name: a}\n", []string{"x.yaml:1: a: kind is missing"}},
		{"namespace is a number", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: 1}\n", []string{"x.yaml:1: ConfigMap a: metadata.namespace is a number: expected text"}},
		{"version with two slashes", "", "apiVersion: a/b/c\nkind: ConfigMap\nmetadata: {name: a}\n", []string{`x.yaml:1: ConfigMap a: apiVersion "a/b/c" is not group/version`}},
		{"text", "", "<html>\n<b>\n", []string{"x.yaml:1: not a Kubernetes object: expected a mapping, found text"}},
		{"a list at the top", "", "- a\n", []string{"x.yaml:1: not a Kubernetes object: expected a mapping, found a list"}},
		{"a list with junk in it", "", "apiVersion: v1\nkind: List\nitems:\n- null\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n", []string{"x.yaml:4: items[0] of the List is not an object: expected a mapping, found nothing"}},
		{"template of a chart", "", "a: 1\n{{ if .Values.x }}\n", []string{"x.yaml:2: could not find expected ':'"}},
		{"JSON that ends too early", "x.json", "{\"a\":\n", []string{"x.json:1: the JSON ends too early"}},
		{"JSON syntax", "x.json", "{\n \"a\": 1,,\n}", []string{"x.json:2: invalid character ',' looking for beginning of object key string"}},
		{"binary", "", "a: b\n\x00\x01", []string{"x.yaml:2: this is binary data, not UTF-8 text (byte 0x00 at offset 5)"}},
		{"latin 1", "", "a: b\nc: \xe4\n", []string{"x.yaml:2: this is binary data, not UTF-8 text (byte 0xe4 at offset 8)"}},
		{"UTF-16", "", "\xff\xfea\x00", []string{"x.yaml:1: the file is UTF-16: save it as UTF-8"}},
		{"a bomb of aliases", "", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", []string{"x.yaml:1: document contains excessive aliasing"}},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			file := test.file
			if file == "" {
				file = "x.yaml"
			}
			objects, faults, cache := Parse(file, []byte(test.content), nil)
			if diff := cmp.Diff(test.want, summary(objects, faults)); diff != "" {
				t.Error(diff)
			}
			again, faults, _ := Parse(file, []byte(test.content), cache)
			if diff := cmp.Diff(test.want, summary(again, faults)); diff != "" {
				t.Errorf("from the cache: %s", diff)
			}
		})
	}
}

// TestParseDrops: what only the server sets does not get in the way.
func TestParseDrops(t *testing.T) {
	plain := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	exported := "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, resourceVersion: '1', uid: u, creationTimestamp: null, generation: 1, managedFields: []}\n"
	x, _, _ := Parse("x.yaml", []byte(plain), nil)
	y, _, _ := Parse("y.yaml", []byte(exported), nil)
	if x[0].Hash != y[0].Hash {
		t.Error("they differ")
	}
}

// TestParseShift: a cached document keeps its lines when something is inserted above.
func TestParseShift(t *testing.T) {
	_, _, cache := Parse("x.yaml", []byte(docs(cm("a", "1"), "x: 1\n")), nil)
	objects, faults, _ := Parse("x.yaml", []byte(docs(cm("new", "1"), cm("a", "1"), "x: 1\n")), cache)
	want := []string{"x.yaml:17: not a Kubernetes object: it has neither apiVersion nor kind"}
	if diff := cmp.Diff(want, summary(objects, faults)); diff != "" {
		t.Error(diff)
	}
}

func TestLocate(t *testing.T) {
	file := docs("# c\n"+cm("a", "1"), `apiVersion: v1
kind: Service
metadata:
  name: s
spec:
  selector: &s
    app.kubernetes.io/name: x
  ports:
  - name: a
    port: 80
  - name: b
    port: 81
    prot: x
`, `kind: List
items:
- kind: A
  spec: {x: 1}
- kind: B
  spec:
    y: 1
`)
	tests := []struct {
		start int
		field string
		want  int
	}{
		{2, "data.v", 8},
		{2, "data.none", 7},
		{2, "none", 2},
		{10, "spec.ports[1].port", 21},
		{10, "spec.ports[1]", 20},
		{10, "spec.ports[7].port", 17},
		{10, `spec.ports[port=81,protocol="TCP"].prot`, 22},
		{10, "spec.selector[app.kubernetes.io/name]", 16},
		{26, "spec.x", 27},
		{28, "spec.y", 30},
		{99, "spec", 99},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.start, test.field), func(t *testing.T) {
			if got := locate([]byte(file), test.start, test.field); got != test.want {
				t.Errorf("line %d, want %d in\n%s", got, test.want, file)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("x.yaml", docs(cm("a", "1"), cm("b", "1")))
	f.Add("x.json", `{"apiVersion": "v1", "kind": "List", "items": [{}]}`)
	f.Add("x.yaml", "--- a\n...\n%Y\n- &a [*a]\n")
	f.Fuzz(func(t *testing.T, file, content string) {
		objects, faults, _ := Parse(file, []byte(content), nil)
		if len(objects) > 0 && len(faults) > 0 {
			t.Error("both objects and faults")
		}
		lines := 1 + strings.Count(content, "\n")
		for _, fault := range faults {
			if fault.Line < 0 || fault.Line > lines {
				t.Errorf("%v is beyond line %d", fault, lines)
			}
			locate([]byte(content), fault.Line, "spec.ports[0].x")
		}
	})
}
