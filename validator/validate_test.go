package validator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const base = "web.n.svc.cluster.local"

// row is a case of the rule catalogue. The object is given whole, or by its spec.
type row struct {
	id, name, object, spec string
	// field is that of the problem, "" if the object is allowed.
	field string
	// message is part of the problem's text.
	message string
}

var rows = []row{
	{id: "V01", object: `metadata: {name: web.n.svc.cluster.local}`},
	{id: "V02 empty", spec: `{}`},
	{id: "V02 null", spec: `null`},
	{id: "V02 routes null", spec: `{routes: null}`},
	{id: "V02 no routes", spec: `{routes: []}`},
	{id: "V03", spec: `{routes: [{name: r, condition: {method: GET, pathRegex: /a}}]}`},
	{id: "V04", name: "Web.n.svc.cluster.local", spec: `{}`, field: "metadata.name", message: "Web.n"},
	{id: "V05", name: "web_x.n", spec: `{}`, field: "metadata.name"},
	{id: "V06", name: "web", spec: `{}`},
	{id: "V07", name: "example.com", spec: `{}`},
	{id: "V08", name: base + ".", spec: `{}`, field: "metadata.name"},
	{id: "V09", name: strings.Repeat("a123456789.", 23) + "abcdefgh", spec: `{}`, field: "metadata.name", message: "253"},
	{id: "V10", name: `""`, spec: `{}`, field: "metadata.name"},
	{id: "V11", object: `{metadata: {name: web}, other: 1}`, field: "other", message: "unknown field"},
	{id: "V12", object: `{metadata: {name: web, other: 1}}`, field: "other", message: "unknown field"},
	{id: "V13", object: `{metadata: {name: web}, status: {}}`, field: "status", message: "unknown field"},
	{id: "V14", spec: `{other: 1}`, field: "other", message: "unknown field"},
	{id: "V15", spec: `{routes: [{name: r, condition: {method: GET}, other: 1}]}`, field: "other", message: "unknown field"},
	{id: "V16 B40", spec: `{routes: [{name: r, condition: {pathRegexx: /a}}]}`, field: "pathRegexx", message: "unknown field"},
	{id: "V17", spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [{condition: {status: {other: 1}}}]}]}`, field: "other", message: "unknown field"},
	{id: "V18", spec: `{Routes: [{NAME: r, Condition: {Method: GET}}]}`},
	{id: "V19", spec: "\n  routes: []\n  routes: []", field: "routes", message: "twice"},
	{id: "V20 B39", spec: `{routes: [null]}`, field: "spec.routes[0]", message: "null"},
	{id: "V21", spec: `{routes: [{name: r, condition: {method: GET}}, null]}`, field: "spec.routes[1]", message: "null"},
	{id: "V22 no name", spec: `{routes: [{condition: {method: GET}}]}`, field: "spec.routes[0].name"},
	{id: "V22 empty name", spec: `{routes: [{name: "", condition: {method: GET}}]}`, field: "spec.routes[0].name"},
	{id: "V23", spec: `{routes: [{name: 1, condition: {method: GET}}]}`},
	{id: "V24 no condition", spec: `{routes: [{name: r}]}`, field: "spec.routes[0].condition"},
	{id: "V24 condition null", spec: `{routes: [{name: r, condition: null}]}`, field: "spec.routes[0].condition"},
	{id: "V25", spec: `{routes: [{name: r, condition: {}}]}`, field: "spec.routes[0].condition", message: "one of"},
	{id: "V26 empty method", spec: `{routes: [{name: r, condition: {method: ""}}]}`, field: "spec.routes[0].condition", message: "one of"},
	{id: "V26 null method", spec: `{routes: [{name: r, condition: {method: null}}]}`, field: "spec.routes[0].condition", message: "one of"},
	{id: "V27 all", spec: `{routes: [{name: r, condition: {all: []}}]}`},
	{id: "V27 any", spec: `{routes: [{name: r, condition: {any: []}}]}`},
	{id: "V28 B39", spec: `{routes: [{name: r, condition: {all: [null]}}]}`, field: "spec.routes[0].condition.all[0]", message: "null"},
	{id: "V29", spec: `{routes: [{name: r, condition: {any: [null]}}]}`, field: "spec.routes[0].condition.any[0]", message: "null"},
	{id: "V30", spec: `{routes: [{name: r, condition: {all: [{}]}}]}`, field: "spec.routes[0].condition.all[0]", message: "one of"},
	{id: "V31", spec: `{routes: [{name: r, condition: {not: {}}}]}`, field: "spec.routes[0].condition.not", message: "one of"},
	{id: "V32", spec: `{routes: [{name: r, condition: {not: {method: GET}}}]}`},
	{id: "V33", spec: `{routes: [{name: r, condition: {not: [{method: GET}]}}]}`, field: "spec.routes.condition.not", message: "wrong type"},
	{id: "V34", spec: `{routes: [{name: r, condition: {pathRegex: '[('}}]}`},
	{id: "V35", spec: `{routes: [{name: r, condition: {method: 'not a method'}}]}`},
	{id: "V36", spec: `{routes: [{name: r, condition: {method: GET}}, {name: r, condition: {method: GET}}]}`},
	{id: "V37", spec: `{routes: [{name: r, condition: {method: GET, pathRegex: /a, any: [{all: [{method: GET}, {not: {any: [{pathRegex: /b}]}}]}]}}]}`},
	{id: "V38", spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1ns}]}`},
	{id: "V39 zero", spec: `{routes: [{name: r, condition: {method: GET}, timeout: "0"}]}`},
	{id: "V39 negative", spec: `{routes: [{name: r, condition: {method: GET}, timeout: -5s}]}`},
	{id: "V39 long", spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1h30m1.5s}]}`},
	{id: "V39 B40 empty", spec: `{routes: [{name: r, condition: {method: GET}, timeout: ""}]}`},
	{id: "V40 text", spec: `{routes: [{name: r, condition: {method: GET}, timeout: "10"}]}`, field: "spec.routes[0].timeout", message: "missing unit"},
	{id: "V40 number", spec: `{routes: [{name: r, condition: {method: GET}, timeout: 10}]}`, field: "spec.routes[0].timeout", message: "missing unit"},
	{id: "V41", spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1d}]}`, field: "spec.routes[0].timeout", message: "unknown unit"},
	{id: "V42 B40", spec: `{routes: [{name: r, condition: {method: GET}, timeout: one-second}]}`, field: "spec.routes[0].timeout"},
	{id: "V43", spec: `{routes: [{name: r, condition: {method: GET}, isRetryable: "true"}]}`, field: "spec.routes.isRetryable", message: "wrong type"},
	{id: "V44 B39", spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [null]}]}`, field: "spec.routes[0].responseClasses[0]", message: "null"},
	{id: "V45", spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [{isFailure: true}]}]}`, field: "spec.routes[0].responseClasses[0].condition"},
	{id: "V46", spec: response(`{}`), field: at, message: "one of"},
	{id: "V47", spec: response(`{status: {}}`)},
	{id: "V48 min", spec: response(`{status: {min: 503}}`)},
	{id: "V48 max", spec: response(`{status: {max: 503}}`)},
	{id: "V49 99", spec: response(`{status: {min: 99}}`), field: at + ".status.min", message: "99"},
	{id: "V49 B39 600", spec: response(`{status: {min: 600}}`), field: at + ".status.min", message: "600"},
	{id: "V49 nested", spec: response(`{not: {status: {min: 1}}}`), field: at + ".not.status.min"},
	{id: "V50", spec: response(`{status: {min: 500, max: 600}}`), field: at + ".status.max", message: "600"},
	{id: "V51", spec: response(`{status: {min: 1, max: 700}}`), field: at + ".status.min"},
	{id: "V52", spec: response(`{status: {min: 500, max: 400}}`), field: at + ".status.max", message: "below"},
	{id: "V52 nested", spec: response(`{any: [{status: {min: 300, max: 200}}]}`), field: at + ".any[0].status.max", message: "below"},
	{id: "V53 one", spec: response(`{status: {min: 500, max: 500}}`)},
	{id: "V53 all", spec: response(`{status: {min: 100, max: 599}}`)},
	{id: "V54 bool", spec: response(`{status: {min: false}}`), field: "spec.routes.responseClasses.condition.status.min", message: "wrong type"},
	{id: "V54 negative", spec: response(`{status: {min: -1}}`), field: "spec.routes.responseClasses.condition.status.min", message: "wrong type"},
	{id: "V54 fraction", spec: response(`{status: {min: 500.5}}`), field: "spec.routes.responseClasses.condition.status.min", message: "wrong type"},
	{id: "V55 all", spec: response(`{all: [null]}`), field: at + ".all[0]", message: "null"},
	{id: "V55 any", spec: response(`{any: [null]}`), field: at + ".any[0]", message: "null"},
	{id: "V56", spec: response(`{all: [{status: null}]}`), field: at + ".all[0]", message: "one of"},
	{id: "V57", spec: response(`{all: []}`)},
	{id: "V58", spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: 10s}}`},
	{id: "V58 short", spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: 10ms}}`},
	{id: "V59 B40", spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5}}`, field: "spec.retryBudget.ttl", message: "missing"},
	{id: "V59 empty", spec: `{retryBudget: {}}`, field: "spec.retryBudget.ttl", message: "missing"},
	{id: "V60", spec: `{retryBudget: {ttl: foo}}`, field: "spec.retryBudget.ttl", message: "foo"},
	{id: "V61 negative", spec: `{retryBudget: {ttl: -10s}}`},
	{id: "V61 zero", spec: `{retryBudget: {ttl: "0"}}`},
	{id: "V62 B40", spec: `{retryBudget: {retryRatio: -0.2, ttl: 10s}}`, field: "spec.retryBudget.retryRatio", message: "-0.200000"},
	{id: "V63", spec: `{retryBudget: {retryRatio: -1}}`, field: "spec.retryBudget.retryRatio"},
	{id: "V64", spec: `{retryBudget: {retryRatio: 5000, ttl: 10s}}`},
	{id: "V65", spec: `{retryBudget: {retryRatio: "0.2", ttl: 10s}}`, field: "spec.retryBudget.retryRatio", message: "wrong type"},
	{id: "V66", spec: `{retryBudget: {minRetriesPerSecond: -5, ttl: 10s}}`, field: "spec.retryBudget.minRetriesPerSecond", message: "wrong type"},
	{id: "V67", spec: `{retryBudget: {ttl: 10s}}`},
	{id: "V68", spec: `{routes: [{}], retryBudget: {}}`, field: "spec.routes[0].name"},
	{id: "V69", spec: `{retryBudget: null}`},
	{id: "V70", spec: `{dstOverrides: [{authority: a.n.svc.cluster.local, weight: 500m}, {authority: "b.n.svc.cluster.local:80", weight: 1}]}`},
	{id: "V71", spec: `{dstOverrides: [{authority: a, weight: abc}]}`, field: "spec.dstOverrides.weight", message: "abc"},
	{id: "V72", spec: `{dstOverrides: [{authority: a, weight: -1}, {weight: 1}, {authority: a}, null]}`},
	{id: "V73 text", spec: `{opaquePorts: ["3306"]}`, field: "spec.opaquePorts", message: "wrong type"},
	{id: "V73 number", spec: `{opaquePorts: [3306]}`, field: "spec.opaquePorts", message: "wrong type"},
	{id: "V74", spec: `{opaquePorts: {3306: {}}}`},
	{id: "V75", spec: `{opaquePorts: {foo: {}}}`, field: "spec.opaquePorts", message: "wrong type"},
	{id: "V76", object: `{apiVersion: linkerd.io/v1alpha1, kind: ServiceProfile, metadata: {name: web}, spec: {routes: [{name: r, condition: {method: GET}}]}}`},
	{id: "V77", object: `{apiVersion: v1, kind: Pod, metadata: {name: web}}`},
	{id: "V78 empty", object: `{}`, field: "metadata.name"},
	{id: "V78 null", object: `null`, field: "metadata.name"},
	{id: "V79", object: `[]`, message: "wrong type"},
	{id: "V80", object: `{metadata: {`, message: "no ServiceProfile"},
	{id: "V81", object: `{"apiVersion":"linkerd.io/v1alpha2","kind":"ServiceProfile","metadata":{"annotations":{"a":"b"},"creationTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"],"generateName":"w","generation":2,"labels":{"a":"b"},"managedFields":[{"apiVersion":"linkerd.io/v1alpha2","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:routes":{}}},"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:00Z"}],"name":"web.n.svc.cluster.local","namespace":"n","ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"web","uid":"u"}],"resourceVersion":"1","selfLink":"/a","uid":"u"},"spec":{"routes":[{"condition":{"method":"GET"},"name":"r"}]}}`},
}

// at is the path of the response class that response makes.
const at = "spec.routes[0].responseClasses[0].condition"

func response(condition string) string {
	return `{routes: [{name: r, condition: {method: GET}, responseClasses: [{condition: ` + condition + `}]}]}`
}

func (r row) text() string {
	if r.object != "" {
		return r.object
	}
	name := r.name
	if name == "" {
		name = base
	}
	return "metadata: {name: " + name + "}\nspec: " + r.spec
}

func (r row) denied() bool { return r.field != "" || r.message != "" }

func TestValidate(t *testing.T) {
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			got := Validate([]byte(row.text()), Options{ClusterDomain: "cluster.local"}).Problem
			if got == nil {
				if row.denied() {
					t.Fatal("allowed")
				}
				return
			}
			if !row.denied() {
				t.Fatalf("denied: %s", got)
			}
			if got.Field != row.field || !strings.Contains(got.Message, row.message) {
				t.Errorf("got %q %q, want field %q and a message with %q", got.Field, got.Message, row.field, row.message)
			}
		})
	}
}

// TestWarnings checks what is valid and cannot work (B40).
func TestWarnings(t *testing.T) {
	exists := func(namespace, name string) bool { return namespace == "n" && name == "web" }
	tests := []struct {
		id, name, spec string
		want           []string
	}{
		{"fine", base, `{routes: [{name: r, condition: {pathRegex: "/a/\\d+"}, timeout: 1s}], retryBudget: {ttl: 10s}}`, nil},
		{"V34", base, `{routes: [{name: r, condition: {pathRegex: '[('}}]}`, []string{"spec.routes[0].condition.pathRegex"}},
		{
			"V34 nested", base, `{routes: [{name: r, condition: {any: [{not: {pathRegex: '['}}, {all: [{pathRegex: '('}]}]}}]}`,
			[]string{"spec.routes[0].condition.any[0].not.pathRegex", "spec.routes[0].condition.any[1].all[0].pathRegex"},
		},
		{"V39", base, `{routes: [{name: r, condition: {method: GET}, timeout: -5s}]}`, []string{"spec.routes[0].timeout"}},
		{"V61", base, `{retryBudget: {ttl: -10s}}`, []string{"spec.retryBudget.ttl"}},
		{"V58", base, `{retryBudget: {ttl: 10ms}}`, []string{"spec.retryBudget.ttl"}},
		{"V06", "web", `{}`, []string{"metadata.name"}},
		{"V07", "example.com", `{}`, []string{"metadata.name"}},
		{"other domain", "web.n.svc.example.org", `{}`, []string{"metadata.name"}},
		{"no Service", "api.n.svc.cluster.local", `{}`, []string{"metadata.name"}},
	}
	for _, test := range tests {
		t.Run(test.id, func(t *testing.T) {
			result := Validate([]byte("metadata: {name: "+test.name+"}\nspec: "+test.spec), Options{ClusterDomain: "cluster.local", ServiceExists: exists})
			if result.Problem != nil {
				t.Fatal(result.Problem)
			}
			var got []string
			for _, warning := range result.Warnings {
				got = append(got, warning.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzValidate(f *testing.F) {
	for _, row := range rows {
		f.Add([]byte(row.text()))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		result := Validate(object, Options{ClusterDomain: "cluster.local", ServiceExists: func(string, string) bool { return true }})
		if result.Problem == nil && result.Name == "" {
			t.Error("a profile without name was allowed")
		}
	})
}
