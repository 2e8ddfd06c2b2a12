// Package validatortest has the ServiceProfiles of docs/rules/service-profiles.md and what
// becomes of them, for tests of the check and of the whole product.
package validatortest

import (
	"cmp"
	"slices"
	"strings"
)

const base = "web.n.svc.cluster.local"

// Case is one of them. The object is given whole, or by its
// spec and perhaps its name.
type Case struct {
	// ID is the rule's number with what tells its cases apart.
	ID, Name, Object, Spec string
	// Field is that of the problem, "" if the object is allowed.
	Field string
	// Message is part of the problem's text.
	Message string
	// Schema is the field of which the definition's schema complains, before the
	// check is asked, where that is another one or the check does not complain.
	Schema string
}

// Cases are all of them, in its order.
func Cases() []Case { return slices.Clone(cases) }

var cases = []Case{
	{ID: "V01", Object: `metadata: {name: web.n.svc.cluster.local}`},
	{ID: "V02 empty", Spec: `{}`},
	{ID: "V02 null", Spec: `null`},
	{ID: "V02 routes null", Spec: `{routes: null}`},
	{ID: "V02 no routes", Spec: `{routes: []}`},
	{ID: "V03", Spec: `{routes: [{name: r, condition: {method: GET, pathRegex: /a}}]}`},
	{ID: "V04", Name: "Web.n.svc.cluster.local", Spec: `{}`, Field: "metadata.name", Message: "Web.n"},
	{ID: "V05", Name: "web_x.n", Spec: `{}`, Field: "metadata.name"},
	{ID: "V06", Name: "web", Spec: `{}`},
	{ID: "V07", Name: "example.com", Spec: `{}`},
	{ID: "V08", Name: base + ".", Spec: `{}`, Field: "metadata.name"},
	{ID: "V09", Name: strings.Repeat("a123456789.", 23) + "abcdefgh", Spec: `{}`, Field: "metadata.name", Message: "253"},
	{ID: "V10", Name: `""`, Spec: `{}`, Field: "metadata.name"},
	{ID: "V11", Object: `{metadata: {name: web}, other: 1}`, Field: "other", Message: "unknown field"},
	{ID: "V12", Object: `{metadata: {name: web, other: 1}}`, Field: "other", Message: "unknown field"},
	{ID: "V13", Object: `{metadata: {name: web}, status: {}}`, Field: "status", Message: "unknown field"},
	{ID: "V14", Spec: `{other: 1}`, Field: "other", Message: "unknown field"},
	{ID: "V15", Spec: `{routes: [{name: r, condition: {method: GET}, other: 1}]}`, Field: "other", Message: "unknown field"},
	{ID: "V16 B40", Spec: `{routes: [{name: r, condition: {pathRegexx: /a}}]}`, Field: "pathRegexx", Message: "unknown field"},
	{ID: "V17", Spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [{condition: {status: {other: 1}}}]}]}`, Field: "other", Message: "unknown field"},
	{ID: "V18", Spec: `{Routes: [{NAME: r, Condition: {Method: GET}}]}`, Schema: "spec.Routes"},
	{ID: "V19", Spec: "\n  routes: []\n  routes: []", Field: "routes", Message: "twice"},
	{ID: "V20 B39", Spec: `{routes: [null]}`, Field: "spec.routes[0]", Message: "null"},
	{ID: "V21", Spec: `{routes: [{name: r, condition: {method: GET}}, null]}`, Field: "spec.routes[1]", Message: "null"},
	{ID: "V22 no name", Spec: `{routes: [{condition: {method: GET}}]}`, Field: "spec.routes[0].name"},
	{ID: "V22 empty name", Spec: `{routes: [{name: "", condition: {method: GET}}]}`, Field: "spec.routes[0].name"},
	{ID: "V23", Spec: `{routes: [{name: 1, condition: {method: GET}}]}`, Schema: "spec.routes[0].name"},
	{ID: "V24 no condition", Spec: `{routes: [{name: r}]}`, Field: "spec.routes[0].condition"},
	{ID: "V24 condition null", Spec: `{routes: [{name: r, condition: null}]}`, Field: "spec.routes[0].condition"},
	{ID: "V25", Spec: `{routes: [{name: r, condition: {}}]}`, Field: "spec.routes[0].condition", Message: "one of"},
	{ID: "V26 empty method", Spec: `{routes: [{name: r, condition: {method: ""}}]}`, Field: "spec.routes[0].condition", Message: "one of"},
	{ID: "V26 null method", Spec: `{routes: [{name: r, condition: {method: null}}]}`, Field: "spec.routes[0].condition", Message: "one of"},
	{ID: "V27 all", Spec: `{routes: [{name: r, condition: {all: []}}]}`},
	{ID: "V27 any", Spec: `{routes: [{name: r, condition: {any: []}}]}`},
	{ID: "V28 B39", Spec: `{routes: [{name: r, condition: {all: [null]}}]}`, Field: "spec.routes[0].condition.all[0]", Message: "null"},
	{ID: "V29", Spec: `{routes: [{name: r, condition: {any: [null]}}]}`, Field: "spec.routes[0].condition.any[0]", Message: "null"},
	{ID: "V30", Spec: `{routes: [{name: r, condition: {all: [{}]}}]}`, Field: "spec.routes[0].condition.all[0]", Message: "one of"},
	{ID: "V31", Spec: `{routes: [{name: r, condition: {not: {}}}]}`, Field: "spec.routes[0].condition.not", Message: "one of"},
	{ID: "V32", Spec: `{routes: [{name: r, condition: {not: {method: GET}}}]}`, Schema: "spec.routes[0].condition.not"},
	{ID: "V33", Spec: `{routes: [{name: r, condition: {not: [{method: GET}]}}]}`, Field: "spec.routes.condition.not", Message: "wrong type"},
	{ID: "V34", Spec: `{routes: [{name: r, condition: {pathRegex: '[('}}]}`},
	{ID: "V35", Spec: `{routes: [{name: r, condition: {method: 'not a method'}}]}`},
	{ID: "V36", Spec: `{routes: [{name: r, condition: {method: GET}}, {name: r, condition: {method: GET}}]}`},
	{ID: "V37", Spec: `{routes: [{name: r, condition: {method: GET, pathRegex: /a, any: [{all: [{method: GET}, {not: {any: [{pathRegex: /b}]}}]}]}}]}`},
	{ID: "V38", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1ns}]}`},
	{ID: "V39 zero", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: "0"}]}`},
	{ID: "V39 negative", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: -5s}]}`},
	{ID: "V39 long", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1h30m1.5s}]}`},
	{ID: "V39 B40 empty", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: ""}]}`},
	{ID: "V40 text", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: "10"}]}`, Field: "spec.routes[0].timeout", Message: "missing unit"},
	{ID: "V40 number", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: 10}]}`, Field: "spec.routes[0].timeout", Message: "missing unit"},
	{ID: "V41", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: 1d}]}`, Field: "spec.routes[0].timeout", Message: "unknown unit"},
	{ID: "V42 B40", Spec: `{routes: [{name: r, condition: {method: GET}, timeout: one-second}]}`, Field: "spec.routes[0].timeout"},
	{ID: "V43", Spec: `{routes: [{name: r, condition: {method: GET}, isRetryable: "true"}]}`, Field: "spec.routes.isRetryable", Message: "wrong type"},
	{ID: "V44 B39", Spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [null]}]}`, Field: "spec.routes[0].responseClasses[0]", Message: "null"},
	{ID: "V45", Spec: `{routes: [{name: r, condition: {method: GET}, responseClasses: [{isFailure: true}]}]}`, Field: "spec.routes[0].responseClasses[0].condition"},
	{ID: "V46", Spec: response(`{}`), Field: at, Message: "one of"},
	{ID: "V47", Spec: response(`{status: {}}`)},
	{ID: "V48 min", Spec: response(`{status: {min: 503}}`)},
	{ID: "V48 max", Spec: response(`{status: {max: 503}}`)},
	{ID: "V49 99", Spec: response(`{status: {min: 99}}`), Field: at + ".status.min", Message: "99"},
	{ID: "V49 B39 600", Spec: response(`{status: {min: 600}}`), Field: at + ".status.min", Message: "600"},
	{ID: "V49 nested beside a good one", Spec: response(`{status: {min: 500}, not: {status: {min: 1}}}`), Field: at + ".not.status.min"},
	{ID: "V49 nested", Spec: response(`{not: {status: {min: 1}}}`), Field: at + ".not.status.min"},
	{ID: "V50", Spec: response(`{status: {min: 500, max: 600}}`), Field: at + ".status.max", Message: "600"},
	{ID: "V51", Spec: response(`{status: {min: 1, max: 700}}`), Field: at + ".status.min"},
	{ID: "V52", Spec: response(`{status: {min: 500, max: 400}}`), Field: at + ".status.max", Message: "below"},
	{ID: "V52 nested", Spec: response(`{any: [{status: {min: 300, max: 200}}]}`), Field: at + ".any[0].status.max", Message: "below"},
	{ID: "V53 one", Spec: response(`{status: {min: 500, max: 500}}`)},
	{ID: "V53 all", Spec: response(`{status: {min: 100, max: 599}}`)},
	{ID: "V54 bool", Spec: response(`{status: {min: false}}`), Field: "spec.routes.responseClasses.condition.status.min", Message: "wrong type"},
	{ID: "V54 negative", Spec: response(`{status: {min: -1}}`), Field: "spec.routes.responseClasses.condition.status.min", Message: "wrong type"},
	{ID: "V54 fraction", Spec: response(`{status: {min: 500.5}}`), Field: "spec.routes.responseClasses.condition.status.min", Message: "wrong type"},
	{ID: "V55 all", Spec: response(`{all: [null]}`), Field: at + ".all[0]", Message: "null"},
	{ID: "V55 any", Spec: response(`{any: [null]}`), Field: at + ".any[0]", Message: "null"},
	{ID: "V56", Spec: response(`{all: [{status: null}]}`), Field: at + ".all[0]", Message: "one of"},
	{ID: "V57", Spec: response(`{all: []}`)},
	{ID: "V58", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: 10s}}`},
	{ID: "V58 short", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: 10ms}}`},
	{ID: "V59 B40", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5}}`, Field: "spec.retryBudget.ttl", Message: "missing"},
	{ID: "V59 empty", Spec: `{retryBudget: {}}`, Field: "spec.retryBudget.ttl", Message: "missing"},
	{ID: "V60", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: foo}}`, Field: "spec.retryBudget.ttl", Message: "foo"},
	{ID: "V61 negative", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: -10s}}`},
	{ID: "V61 zero", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: 5, ttl: "0"}}`},
	{ID: "V62 B40", Spec: `{retryBudget: {retryRatio: -0.2, minRetriesPerSecond: 5, ttl: 10s}}`, Field: "spec.retryBudget.retryRatio", Message: "-0.200000"},
	{ID: "V63", Spec: `{retryBudget: {retryRatio: -1, minRetriesPerSecond: 5}}`, Field: "spec.retryBudget.retryRatio", Schema: "spec.retryBudget.ttl"},
	{ID: "V64", Spec: `{retryBudget: {retryRatio: 5000, minRetriesPerSecond: 5, ttl: 10s}}`},
	{ID: "V65", Spec: `{retryBudget: {retryRatio: "0.2", minRetriesPerSecond: 5, ttl: 10s}}`, Field: "spec.retryBudget.retryRatio", Message: "wrong type"},
	{ID: "V66", Spec: `{retryBudget: {retryRatio: 0.2, minRetriesPerSecond: -5, ttl: 10s}}`, Field: "spec.retryBudget.minRetriesPerSecond", Message: "wrong type"},
	{ID: "V67", Spec: `{retryBudget: {ttl: 10s}}`, Schema: "spec.retryBudget.retryRatio"},
	{ID: "V68", Spec: `{routes: [{}], retryBudget: {}}`, Field: "spec.routes[0].name"},
	{ID: "V69", Spec: `{retryBudget: null}`},
	{ID: "V70", Spec: `{dstOverrides: [{authority: a.n.svc.cluster.local, weight: 500m}, {authority: "b.n.svc.cluster.local:80", weight: 1}]}`},
	{ID: "V71", Spec: `{dstOverrides: [{authority: a, weight: abc}]}`, Field: "spec.dstOverrides.weight", Message: "abc"},
	{ID: "V71 an exponent that would take hours", Spec: `{dstOverrides: [{authority: a, weight: "1e-1000000000"}]}`, Field: "spec.dstOverrides.weight", Message: "too long"},
	{ID: "V72", Spec: `{dstOverrides: [{authority: a, weight: -1}, {weight: 1}, {authority: a}]}`},
	{ID: "V72 null", Spec: `{dstOverrides: [null]}`, Schema: "spec.dstOverrides[0]"},
	{ID: "V73 text", Spec: `{opaquePorts: ["3306"]}`, Field: "spec.opaquePorts", Message: "wrong type"},
	{ID: "V73 number", Spec: `{opaquePorts: [3306]}`, Field: "spec.opaquePorts", Message: "wrong type"},
	{ID: "V74", Spec: `{opaquePorts: {3306: {}}}`, Schema: "spec.opaquePorts"},
	{ID: "V75", Spec: `{opaquePorts: {foo: {}}}`, Field: "spec.opaquePorts", Message: "wrong type"},
	{ID: "V76", Object: `{apiVersion: linkerd.io/v1alpha1, kind: ServiceProfile, metadata: {name: web}, spec: {routes: [{name: r, condition: {method: GET}}]}}`},
	{ID: "V77", Object: `{apiVersion: v1, kind: Pod, metadata: {name: web}}`},
	{ID: "V78 empty", Object: `{}`, Field: "metadata.name"},
	{ID: "V78 null", Object: `null`, Field: "metadata.name"},
	{ID: "V79", Object: `[]`, Message: "wrong type"},
	{ID: "V80", Object: `{metadata: {`, Message: "no ServiceProfile"},
	{ID: "V81", Object: `{"apiVersion":"linkerd.io/v1alpha2","kind":"ServiceProfile","metadata":{"annotations":{"a":"b"},"creationTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b"],"generateName":"w","generation":2,"labels":{"a":"b"},"managedFields":[{"apiVersion":"linkerd.io/v1alpha2","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:routes":{}}},"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:00Z"}],"name":"web.n.svc.cluster.local","namespace":"n","ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"web","uid":"u"}],"resourceVersion":"1","selfLink":"/a","uid":"u"},"spec":{"routes":[{"condition":{"method":"GET"},"name":"r"}]}}`},
}

// at is the path of the response class that response makes.
const at = "spec.routes[0].responseClasses[0].condition"

func response(condition string) string {
	return `{routes: [{name: r, condition: {method: GET}, responseClasses: [{condition: ` + condition + `}]}]}`
}

// Text is the object in YAML.
func (c Case) Text() string {
	if c.Object != "" {
		return c.Object
	}
	return "metadata: {name: " + cmp.Or(c.Name, base) + "}\nspec: " + c.Spec
}

// Denied says whether the check denies the object.
func (c Case) Denied() bool { return c.Field != "" || c.Message != "" }
