package outbound

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// failure is how a kind of route says that a backend cannot be used.
func (v variant) failure(message string) string {
	switch v.kind {
	case "HTTPRoute":
		return " filters failure_injector:{status:500 message:" + message + "}"
	case "GRPCRoute":
		return " filters failure_injector:{code:500 message:" + message + "}"
	}
	return " filters invalid:{message:" + message + "}"
}

// Backends of all forms, P163-P167 and P185-P193.
func TestBackends(t *testing.T) {
	const invalid = "invalid invalid"
	other := egress("other", "Allow", "[{cidr: 9.9.9.9/32}]")
	const egr = "group: policy.linkerd.io, kind: EgressNetwork"
	far := strings.Replace(serviceSpec("far", "ports: [{port: 80}]"), "namespace: ns", "namespace: far", 1)
	for _, row := range []struct {
		name    string
		only    []variant
		parents []parentFixture
		refs    string
		// want are the backends; a failure's filter is added to %s.
		want, failure string
	}{
		{"P163 B70 another namespace", allVariants, []parentFixture{svcParent}, "{kind: Service, name: far, namespace: far, port: 80}", "1 x Service far/far:80", ""},
		{"P164 missing", allVariants, bothParents, "{kind: Service, name: invalid, port: 8888}", "1 x Service ns/invalid:8888 invalid%s", "Service not found invalid"},
		{"P164b missing EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: invalid, port: 8888}", "1 x EgressNetwork ns/invalid:8888 invalid%s", "EgressNetwork not found invalid"},
		{"P166 unknown kind", allVariants, bothParents, "{kind: Unknown, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type core Unknown"},
		{"P166 unknown group", allVariants, bothParents, "{group: apps, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type apps <empty>"},
		{"P166 empty group", allVariants, bothParents, "{group: '', kind: Unknown, name: a, port: 80}", "1 x " + invalid + "%s", "unsupported backend type  Unknown"},
		{"P166 group without kind", allVariants, bothParents, "{group: policy.linkerd.io, name: my-egress, port: 80}", "1 x " + invalid + "%s", "unsupported backend type policy.linkerd.io <empty>"},
		{"P166 EgressNetwork without group", allVariants, bothParents, "{kind: EgressNetwork, name: my-egress, port: 80}", "1 x " + invalid + "%s", "unsupported backend type core EgressNetwork"},
		{"P166 EgressNetwork of another group", allVariants, bothParents, "{group: core, kind: EgressNetwork, name: my-egress, port: 80}", "1 x " + invalid + "%s", "unsupported backend type core EgressNetwork"},
		{"the last port", allVariants, []parentFixture{svcParent}, "{kind: Service, name: backend, port: 65535}", "1 x Service ns/backend:65535", ""},
		{"P167 no port", allVariants, bothParents, "{kind: Service, name: backend}", "1 x " + invalid + "%s", "missing port for backend Service backend"},
		{"port that is none", allVariants, bothParents, "{kind: Service, name: backend, port: 65536}", "1 x " + invalid + "%s", "missing port for backend Service backend"},
		{"spellings of Service", allVariants, []parentFixture{svcParent}, "{name: backend, port: 1}, {group: CORE, kind: service, name: backend, port: 2}, {group: '', kind: Service, name: backend, port: 3}", "1 x Service ns/backend:1, 1 x Service ns/backend:2, 1 x Service ns/backend:3", ""},
		{"P186 Service of an EgressNetwork's route", allVariants, []parentFixture{egrParent}, "{kind: Service, name: backend, port: 8888}", "1 x Service ns/backend:8888", ""},
		{"P187 another EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: other, port: 8888}", "1 x EgressNetwork ns/other:8888 invalid%s", "Route with EgressNetwork backend needs to have the same EgressNetwork as a parent"},
		{"P188 EgressNetwork of a Service's route", allVariants, []parentFixture{svcParent}, "{" + egr + ", name: other, port: 8888}", "1 x EgressNetwork ns/other:8888 invalid%s", "EgressNetwork backends attach to EgressNetwork parents only"},
		{"P189 the same EgressNetwork", allVariants, []parentFixture{egrParent}, "{" + egr + ", name: my-egress, port: 8888}", "1 x EgressNetwork ns/my-egress:8888 at 1.1.1.1:4191", ""},
		{"the same EgressNetwork, without port and with weight", allVariants, []parentFixture{egrParent}, "{group: Policy.Linkerd.IO, kind: egressnetwork, name: my-egress, weight: 7}", "7 x EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191 weight 7", ""},
		{"P193 weights", allVariants, []parentFixture{svcParent}, "{name: backend, port: 1, weight: 3}, {name: backend, port: 2, weight: 0}, {name: gone, port: 3, weight: 2}", "3 x Service ns/backend:1, 0 x Service ns/backend:2, 2 x Service ns/gone:3 invalid%s", "Service not found gone"},
		{"P185 mirror", []variant{gwHTTP, grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: x}}}]}", "1 x " + invalid + "%s", "unsupported backend filter: RequestMirror filter is not supported"},
		{"rewrite", []variant{gwHTTP}, bothParents, "{name: backend, filters: [{type: URLRewrite, urlRewrite: {}}]}", "1 x " + invalid + "%s", "unsupported backend filter: URLRewrite filter is not supported"},
		{"extension", []variant{gwHTTP, grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]}", "1 x " + invalid + "%s", "unsupported backend filter: ExtensionRef filter is not supported"},
		{"G2 the field of a filter counts, not its type", httpVariants, bothParents, "{name: backend, port: 1, filters: [{type: RequestHeaderModifier, requestRedirect: {statusCode: 301}}]}", "1 x Service ns/backend:1 filters redirect:{status:301}", ""},
		{"G2 filters of Linkerd's own route are the Gateway API's", []variant{polHTTP}, bothParents, "{name: backend, port: 1, filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]}", "1 x " + invalid + "%s", "unsupported backend filter: ExtensionRef filter is not supported"},
		{"G7 header name", l7Variants, bothParents, "{name: backend, port: 1, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: 'a b', value: c}]}}]}", "1 x " + invalid + "%s", "unsupported backend filter: invalid HTTP header name"},
		{"G7 header to remove", l7Variants, bothParents, "{name: backend, port: 1, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: ['a:']}}]}", "1 x " + invalid + "%s", "unsupported backend filter: invalid HTTP header name"},
		{"G7 header value", l7Variants, bothParents, `{name: backend, port: 1, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: "\n"}]}}]}`, "1 x " + invalid + "%s", "unsupported backend filter: failed to parse header value"},
		{"G7 status", httpVariants, bothParents, "{name: backend, port: 1, filters: [{type: RequestRedirect, requestRedirect: {statusCode: 99}}]}", "1 x " + invalid + "%s", "unsupported backend filter: invalid status code"},
		{"G7 no filter", l7Variants, bothParents, "{name: backend, port: 1, filters: [{type: RequestHeaderModifier}]}", "1 x " + invalid + "%s", "unsupported backend filter: unknown filter"},
		{"the kind is looked at before filters", []variant{gwHTTP}, bothParents, "{kind: Unknown, name: a, filters: [{type: URLRewrite, urlRewrite: {}}]}", "1 x " + invalid + "%s", "unsupported backend type core Unknown"},
		{"P182 filters", httpVariants, bothParents, "{name: backend, port: 1, filters: [" + modifier + ", " + redirect + "]}", "1 x Service ns/backend:1 filters " + modifierText + "; " + redirectText, ""},
		{"response filter", httpVariants, bothParents, "{name: backend, port: 1, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [A]}}]}", "1 x Service ns/backend:1 filters response_header_modifier:{add:{} set:{} remove:[a]}", ""},
		{"P183 gRPC filter", []variant{grpc_}, bothParents, "{name: backend, port: 1, filters: [" + modifier + "]}", "1 x Service ns/backend:1 filters " + modifierText, ""},
		{"gRPC response filter is left out", []variant{grpc_}, bothParents, "{name: backend, port: 1, filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [A]}}]}", "1 x Service ns/backend:1", ""},
	} {
		for _, parent := range row.parents {
			for _, v := range row.only {
				rulebook.Run(t, row.name+"/"+parent.name+"/"+v.name, func(t *testing.T) {
					bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
						c.apply(parent.doc(), backendSvc, other, far, v.route(routeDoc{parents: []string{parent.ref}, rules: "[{backendRefs: [" + row.refs + "]}]"}))
						want := row.want
						if row.failure != "" {
							want = fmt.Sprintf(want, v.failure(row.failure))
						}
						protocol := strings.Fields(v.line(""))[0]
						wantText(t, v.line("route")+"\n  -> random "+want+parent.rest[protocol], routesOf(protocol, c.get("ns", parent.address)))
					})
				})
			}
		}
	}
}

const (
	modifier     = "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: foo, value: a}], add: [{name: Bar, value: b}], remove: [Baz]}}"
	modifierText = "request_header_modifier:{add:{headers:[{name:bar value:b}]} set:{headers:[{name:foo value:a}]} remove:[baz]}"
	redirect     = "{type: RequestRedirect, requestRedirect: {scheme: http, hostname: host, path: {type: ReplacePrefixMatch, replacePrefixMatch: /path}, port: 5555, statusCode: 302}}"
	redirectText = "redirect:{scheme:{registered:HTTP} host:host path:{prefix:/path} port:5555 status:302}"
)

// An EgressNetwork that is gone is no backend any more.
func TestEgressBackendGoes(t *testing.T) {
	for _, v := range allVariants {
		t.Run(v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), egress("other", "Allow", ""), v.route(routeDoc{rules: "[{backendRefs: [{group: policy.linkerd.io, kind: EgressNetwork, name: other, port: 8888}]}]"}))
				s := c.watch("ns", "10.96.0.10:4191")
				if text := summary(s.Take()[0]); !strings.Contains(text, "EgressNetwork backends attach to EgressNetwork parents only") {
					t.Errorf("while it is there: %s", text)
				}
				c.remove("EgressNetwork/ns/other")
				messages := s.Take()
				if len(messages) != 1 || !strings.Contains(summary(messages[0]), "EgressNetwork not found other") {
					t.Errorf("once it is gone: %v", messages)
				}
			})
		})
	}
}

// A backend is valid as soon as, and as long as, it exists.
func TestBackendComesAndGoes(t *testing.T) {
	for _, v := range allVariants {
		rulebook.Run(t, "P164 P165 B62 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(), v.route(routeDoc{rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				s := c.watch("ns", "10.96.0.10:4191")
				missing := summary(s.Take()[0])
				if !strings.Contains(missing, "1 x Service ns/backend:8888 invalid"+v.failure("Service not found backend")) {
					t.Errorf("P164: %s", missing)
				}
				c.apply(backendSvc)
				present := summary(s.Take()[0])
				if strings.Contains(present, "invalid") || !strings.Contains(present, "1 x Service ns/backend:8888") {
					t.Errorf("P165: %s", present)
				}
				c.remove("Service/ns/backend")
				s.want(missing)
				c.apply(backendSvc)
				s.want(present)
			})
		})
	}
}
