package gateway

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

var at = field.NewPath("spec")

// policy-inbound 8.4. An empty want is an error.
func TestHTTPMatches(t *testing.T) {
	for _, row := range []struct{ name, match, want string }{
		{"nothing", `{}`, `{}`},
		{"path without type and value", `{path: {}}`, `{"path":{"prefix":"/"}}`},
		{"path prefix", `{path: {type: PathPrefix, value: /a}}`, `{"path":{"prefix":"/a"}}`},
		{"path exact", `{path: {type: Exact, value: /a}}`, `{"path":{"exact":"/a"}}`},
		{"path exact without value", `{path: {type: Exact}}`, `{"path":{"exact":"/"}}`},
		{"path regex", `{path: {type: RegularExpression, value: "a.*b"}}`, `{"path":{"regex":"a.*b"}}`},
		{"relative prefix", `{path: {value: a}}`, ``},
		{"relative exact", `{path: {type: Exact, value: a/b}}`, ``},
		{"regex that does not compile", `{path: {type: RegularExpression, value: "a("}}`, ``},
		{"regex that proxies do not understand", `{path: {type: RegularExpression, value: "/users/{id}"}}`, ``},
		{"P311 unknown path type", `{path: {type: Glob, value: /a}}`, ``},
		{"header", `{headers: [{name: X-Foo, value: "a b"}]}`, `{"headers":[{"name":"x-foo","exact":"YSBi"}]}`},
		{"header regex", `{headers: [{name: X, type: RegularExpression, value: "[a-z]+"}]}`, `{"headers":[{"name":"x","regex":"[a-z]+"}]}`},
		{"header name", `{headers: [{name: "a b", value: x}]}`, ``},
		{"G5 header value above 0x7f", `{headers: [{name: a, value: "ü"}]}`, `{"headers":[{"name":"a","exact":"w7w="}]}`},
		{"G5 header value with all that is visible, and a tab", "{headers: [{name: a, value: \"~\\t !\"}]}", `{"headers":[{"name":"a","exact":"fgkgIQ=="}]}`},
		{"header value with a line break", "{headers: [{name: a, value: \"b\\nc\"}]}", ``},
		{"header value with DEL", "{headers: [{name: a, value: \"\\x7f\"}]}", ``},
		{"header type", `{headers: [{name: a, type: Prefix, value: x}]}`, ``},
		{"query", `{queryParams: [{name: Q, value: v}, {name: r, type: RegularExpression, value: "v+"}]}`, `{"queryParams":[{"name":"Q","exact":"v"},{"name":"r","regex":"v+"}]}`},
		{"query regex", `{queryParams: [{name: r, type: RegularExpression, value: "("}]}`, ``},
		{"method", `{method: GET}`, `{"method":{"registered":"GET"}}`},
		{"method", `{method: TRACE}`, `{"method":{"registered":"TRACE"}}`},
		{"unknown method", `{method: QUERY}`, ``},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			var match gatewayv1.HTTPRouteMatch
			read(t, row.match, &match)
			got, err := HTTPMatch(at, match)
			check(t, row.want, got, err)
		})
	}
}

func TestGRPCMatches(t *testing.T) {
	for _, row := range []struct{ name, match, want string }{
		{"no method", `{}`, `{"rpc":{}}`},
		{"headers only", `{headers: [{name: A, value: b}]}`, `{"rpc":{},"headers":[{"name":"a","exact":"Yg=="}]}`},
		{"service", `{method: {service: s}}`, `{"rpc":{"service":"s"}}`},
		{"method alone", `{method: {method: m}}`, `{"rpc":{"method":"m"}}`},
		{"service and method", `{method: {type: Exact, service: s, method: m}}`, `{"rpc":{"service":"s","method":"m"}}`},
		{"P67 regex", `{method: {type: RegularExpression, service: s}}`, ``},
		{"unknown type", `{method: {type: Prefix, service: s}}`, ``},
		{"header regex", `{headers: [{name: A, type: RegularExpression, value: "("}]}`, ``},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			var match gatewayv1.GRPCRouteMatch
			read(t, row.match, &match)
			got, err := GRPCMatch(at, match)
			check(t, row.want, got, err)
		})
	}
}

func TestHosts(t *testing.T) {
	got := Hosts([]gatewayv1.Hostname{"*.a.b", "Web.example", "*"})
	want := []string{`{"suffix":{"reverseLabels":["b","a"]}}`, `{"exact":"Web.example"}`, `{"exact":"*"}`}
	if len(got) != len(want) {
		t.Fatalf("%d hosts, want %d", len(got), len(want))
	}
	for i, host := range got {
		check(t, want[i], host, nil)
	}
}

// policy-inbound 8.5, P180 and P183.
func TestFilters(t *testing.T) {
	for _, row := range []struct{ name, filter, want string }{
		{"empty request modifier", `{requestHeaderModifier: {}}`, `{"add":{},"set":{}}`},
		{"request modifier", `{requestHeaderModifier: {set: [{name: Foo, value: a}], add: [{name: B, value: c}, {name: A, value: d}], remove: [Baz]}}`,
			`{"add":{"headers":[{"name":"b","value":"Yw=="},{"name":"a","value":"ZA=="}]},"set":{"headers":[{"name":"foo","value":"YQ=="}]},"remove":["baz"]}`},
		{"bad name", `{requestHeaderModifier: {set: [{name: "a:", value: a}]}}`, ``},
		{"bad value", `{requestHeaderModifier: {add: [{name: a, value: "a\nb"}]}}`, ``},
		{"bad removal", `{requestHeaderModifier: {remove: [""]}}`, ``},
		{"response modifier", `{responseHeaderModifier: {remove: [A]}}`, `{"add":{},"set":{},"remove":["a"]}`},
		{"bad response modifier", `{responseHeaderModifier: {remove: ["("]}}`, ``},
		{"redirect", `{requestRedirect: {scheme: http, hostname: host, path: {type: ReplacePrefixMatch, replacePrefixMatch: /path}, port: 5555, statusCode: 302}}`,
			`{"scheme":{"registered":"HTTP"},"host":"host","path":{"prefix":"/path"},"port":5555,"status":302}`},
		{"empty redirect", `{requestRedirect: {}}`, `{"status":200}`},
		{"redirect to a full path", `{requestRedirect: {scheme: https, path: {replaceFullPath: /f, replacePrefixMatch: /p}, port: 70000}}`,
			`{"scheme":{"registered":"HTTPS"},"path":{"full":"/f"},"status":200}`},
		{"P52 relative path", `{requestRedirect: {path: {replaceFullPath: foo/bar}}}`, ``},
		{"path without replacement", `{requestRedirect: {path: {type: ReplaceFullPath}}}`, ``},
		{"unknown scheme", `{requestRedirect: {scheme: ftp}}`, ``},
		{"bad status", `{requestRedirect: {statusCode: 99}}`, ``},
		{"bad status", `{requestRedirect: {statusCode: 1000}}`, ``},
		{"the lowest status and port", `{requestRedirect: {statusCode: 100, port: 1}}`, `{"port":1,"status":100}`},
		{"the highest status and port", `{requestRedirect: {statusCode: 999, port: 65535}}`, `{"port":65535,"status":999}`},
		{"no port", `{requestRedirect: {port: 0}}`, `{"status":200}`},
		{"negative port", `{requestRedirect: {port: -1}}`, `{"status":200}`},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			var filter gatewayv1.HTTPRouteFilter
			read(t, row.filter, &filter)
			var got proto.Message
			converted, err := HTTPFilter(at, filter, false)
			switch {
			case converted.RequestHeaders != nil:
				got = converted.RequestHeaders
			case converted.ResponseHeaders != nil:
				got = converted.ResponseHeaders
			default:
				got = converted.Redirect
			}
			check(t, row.want, got, err)
		})
	}
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// check compares a message with JSON; an empty want is an error.
func check(t *testing.T, want string, got proto.Message, err *field.Error) {
	t.Helper()
	if want == "" {
		if err == nil {
			t.Fatalf("no error, but %v", got)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	text, marshalErr := protojson.Marshal(got)
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}
