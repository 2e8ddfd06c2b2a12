package admission

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

const (
	policyGroup  = "policy.linkerd.io"
	gatewayGroup = "gateway.networking.k8s.io"
)

// row is a case of the rule catalogue; several specs stand for "each".
type row struct {
	id, group, kind string
	annotations     map[string]string
	specs           []string
	// field is that of the problem and message a part of its text; the object is allowed if field is empty.
	field, message string
}

func server(id, field, message string, specs ...string) row {
	return row{id: id, group: policyGroup, kind: "Server", field: field, message: message, specs: specs}
}

func of(kind, id, field, message string, specs ...string) row {
	return row{id: id, group: policyGroup, kind: kind, field: field, message: message, specs: specs}
}

// routes are rows of several kinds: pol is the HTTPRoute of policy.linkerd.io, http, grpc, tls and tcp are the Gateway
// API's.
func routes(kinds, id, field, message string, annotations map[string]string, specs ...string) []row {
	var rows []row
	for kind := range strings.FieldsSeq(kinds) {
		r := row{id: id + " " + kind, group: gatewayGroup, field: field, message: message, annotations: annotations, specs: specs}
		switch kind {
		case "pol":
			r.group, r.kind = policyGroup, "HTTPRoute"
		case "http":
			r.kind = "HTTPRoute"
		case "grpc":
			r.kind = "GRPCRoute"
		case "tls":
			r.kind = "TLSRoute"
		case "tcp":
			r.kind = "TCPRoute"
		default:
			panic(kind)
		}
		rows = append(rows, r)
	}
	return rows
}

const (
	serverParent  = `parentRefs: [{group: policy.linkerd.io, kind: Server, name: s}]`
	serviceParent = `parentRefs: [{group: core, kind: Service, name: s, port: 80}]`
	egressParent  = `parentRefs: [{group: policy.linkerd.io, kind: EgressNetwork, name: e, port: 443}]`
	egressNoPort  = `parentRefs: [{group: policy.linkerd.io, kind: EgressNetwork, name: e}]`
	gatewayParent = `parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]`
	oneRule       = `rules: [{backendRefs: [{group: policy.linkerd.io, kind: EgressNetwork, name: e, port: 443}]}]`

	refPolicy  = `{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}`
	refNetwork = `{group: policy.linkerd.io, kind: NetworkAuthentication, name: nets}`
	refAccount = `{kind: ServiceAccount, name: a}`
)

func authorization(target string, refs ...string) string {
	return "{targetRef: " + target + ", requiredAuthenticationRefs: [" + strings.Join(refs, ", ") + "]}"
}

func target(group, kind, name string) string {
	if group == "" {
		return "{kind: " + kind + ", name: " + name + "}"
	}
	return "{group: " + group + ", kind: " + kind + ", name: " + name + "}"
}

func identities(ids ...string) []string {
	var specs []string
	for _, id := range ids {
		specs = append(specs, `{identities: ["`+id+`"]}`)
	}
	return specs
}

func networks(lists ...string) []string {
	var specs []string
	for _, list := range lists {
		specs = append(specs, "{networks: ["+list+"]}")
	}
	return specs
}

func clients(specs ...string) []string {
	var out []string
	for _, client := range specs {
		out = append(out, "{server: {name: s}, client: {"+client+"}}")
	}
	return out
}

func limits(specs ...string) []string {
	var out []string
	for _, limits := range specs {
		out = append(out, "{targetRef: {group: policy.linkerd.io, kind: Server, name: s}, "+limits+"}")
	}
	return out
}

var (
	ownServer = target(policyGroup, "Server", "s")

	policyRows = []row{
		server("P01 P02 P06", "", "", `{podSelector: {}, port: 80}`, `{podSelector: {}, port: 80}`),
		server("P03", "spec", "proxyProtocol", `{podSelector: {}, port: 80, proxyProtocol: garbanzo}`),
		server("P04", "spec.accessPolicy", "foobar", `{podSelector: {}, port: 80, accessPolicy: foobar}`),
		server("3.1 empty", "spec.accessPolicy", "", `{podSelector: {}, port: 80, accessPolicy: ""}`),
		server("access policies", "", "", `{podSelector: {}, port: 80, accessPolicy: audit}`, `{podSelector: {}, port: 80, accessPolicy: cluster-authenticated}`),
		server("P05", "spec", "exactly one of podSelector", `{podSelector: {}, externalWorkloadSelector: {}, port: 80}`, `{port: 80}`),
		server("port out of range", "spec", "port", `{podSelector: {}, port: 0}`, `{podSelector: {}, port: 70000}`),
		server("named port, unknown field", "", "", `{podSelector: {}, port: http, other: 1}`),
		server("G8 null where a string must be", "spec.podSelector.matchLabels[a]", "null", `{podSelector: {matchLabels: {a: null}}, port: 80}`),
		server("G8 no port", "spec", "port", `{podSelector: {}, port: null}`, `{podSelector: {}}`),
		of("ServerAuthorization", "G8 null where a string must be", "spec.client.meshTLS.identities[0]", "null", clients(`meshTLS: {identities: [null]}`)...),
		server("unknown operator", "spec", "operator", `{podSelector: {matchExpressions: [{key: a, operator: Is}]}, port: 80}`),

		of("AuthorizationPolicy", "P07", "", "", authorization(ownServer, refPolicy, refNetwork)),
		of("AuthorizationPolicy", "P08", "", "", authorization(target("", "Namespace", "ns"), refPolicy), authorization(target("core", "namespace", "ns"))),
		of("AuthorizationPolicy", "P09", "spec.targetRef.name", "other", authorization(target("", "Namespace", "other"), refPolicy)),
		of("AuthorizationPolicy", "P10", "", "", authorization(target(policyGroup, "HTTPRoute", "r"), refPolicy)),
		of("AuthorizationPolicy", "P11 B70", "", "", authorization(target(gatewayGroup, "HTTPRoute", "r"), refPolicy), authorization(target(gatewayGroup, "GRPCRoute", "r"), refPolicy)),
		of("AuthorizationPolicy", "P12", "", "", authorization(ownServer, refPolicy), authorization(ownServer, refNetwork)),
		of("AuthorizationPolicy", "P13", "", "", authorization(ownServer)),
		of("AuthorizationPolicy", "P14", "spec", "requiredAuthenticationRefs", `{targetRef: `+ownServer+`}`),
		of("AuthorizationPolicy", "P15", "spec.targetRef.kind", "Deployment.apps", authorization(target("apps", "Deployment", "d"), refPolicy)),
		of("AuthorizationPolicy", "P16", "spec.requiredAuthenticationRefs", "one MeshTLSAuthentication", authorization(ownServer, refPolicy, refPolicy)),
		of("AuthorizationPolicy", "P17", "spec.requiredAuthenticationRefs", "one NetworkAuthentication", authorization(ownServer, refNetwork, refNetwork)),
		of("AuthorizationPolicy", "two accounts", "spec.requiredAuthenticationRefs", "one ServiceAccount", authorization(ownServer, refAccount, refAccount)),
		of("AuthorizationPolicy", "P18", "spec.requiredAuthenticationRefs", "exclude", authorization(ownServer, refPolicy, refAccount)),
		of("AuthorizationPolicy", "P19", "spec.requiredAuthenticationRefs", "ConfigMap", authorization(ownServer, `{kind: ConfigMap, name: c}`)),

		of("MeshTLSAuthentication", "P20", "", "", `{identityRefs: [{kind: ServiceAccount, name: default}]}`),
		of("MeshTLSAuthentication", "P21", "", "", `{identityRefs: [{kind: Namespace, name: ns}]}`),
		of("MeshTLSAuthentication", "P22", "spec.identityRefs[0].namespace", "", `{identityRefs: [{kind: Namespace, name: ns, namespace: foo}]}`),
		of("MeshTLSAuthentication", "other kind", "spec.identityRefs[1].kind", "Pod", `{identityRefs: [{kind: ServiceAccount, name: a}, {kind: Pod, name: p}]}`),
		of("MeshTLSAuthentication", "no name", "spec", "identityRefs[0]", `{identityRefs: [{kind: ServiceAccount}]}`),
		of("MeshTLSAuthentication", "P23", "", "", identities("example.id")...),
		of("MeshTLSAuthentication", "P26", "", "", identities("*", "*.system.local", "system.local", "spiffe://trustdomain", "spiffe://trustdomain/path/element")...),
		of("MeshTLSAuthentication", "P27", "spec.identities[0]", "is invalid", identities("system.local.*", "system.local.", ".system.local", "system..local",
			"http://domain.test/path", "spiffe:/path", "spiffe:path", "spiffe:///path", "spiffe://domain.test/path?query=", "spiffe://domain.test/p#f",
			"spiffe://domain.test:8080/p", "spiffe://user:pw@test.org/p", "spiffe://test.org/", "spiffe://test.org//", "spiffe://test.org/p/",
			"spiffe://test.org/./x", "spiffe://test.org/../x")...),
		of("MeshTLSAuthentication", "identities of other cases", "spec.identities[0]", "is invalid", identities("", "System.local", "Spiffe://a", "spiffe://A/b", "spiffe://", "spiffe://ä", "spiffe://a/ä", "spiffe://a/b//c")...),
		of("MeshTLSAuthentication", "paths may have capitals", "", "", identities("spiffe://a.b-c_d/A/_-.x")...),

		of("NetworkAuthentication", "P28", "", "", networks(`{cidr: 10.1.0.0/24}, {cidr: 10.1.1.0/24, except: [10.1.1.128/25]}`)...),
		of("NetworkAuthentication", "P29", "", "", networks(`{cidr: 10.1.0.0/16, except: [10.1.3.4]}`)...),
		of("NetworkAuthentication", "P30", "spec.networks[0].except[0]", "negated", networks(`{cidr: 10.1.0.0/16, except: [10.1.0.0/16]}`, `{cidr: 10.1.0.0/16, except: [10.0.0.0/8]}`,
			`{cidr: 10.1.2.3/16, except: [10.1.9.9/16]}`, `{cidr: "fd00::1", except: ["fd00::1/128"]}`)...),
		of("NetworkAuthentication", "P31", "spec.networks[0].except[1]", "not included", networks(`{cidr: 10.1.0.0/16, except: [10.1.1.1, 10.2.0.0/24]}`, `{cidr: 10.1.0.0/16, except: [10.1.1.1, "fd00::/8"]}`,
			`{cidr: 0.0.0.0/1, except: [10.1.1.1, "::/0"]}`)...),
		of("NetworkAuthentication", "P32", "spec", "10.1.0.0/32/16", networks(`{cidr: 10.1.0.0/32/16}`)...),
		of("NetworkAuthentication", "P33", "spec.networks", "at least one", networks(``)...),
		of("NetworkAuthentication", "P38", "", "", networks(`{cidr: 10.1.0.1}`, `{cidr: "fd00::1"}`)...),

		of("ServerAuthorization", "P34", "", "", clients(`networks: [{cidr: 10.1.0.0/24, except: [10.1.0.7]}], meshTLS: {unauthenticatedTLS: true}`)...),
		of("ServerAuthorization", "P35 negated", "spec.client.networks[0].except[0]", "negated", clients(`networks: [{cidr: 10.1.0.0/24, except: [10.1.0.0/24]}]`)...),
		of("ServerAuthorization", "P35 outside", "spec.client.networks[0].except[0]", "not included", clients(`networks: [{cidr: 10.1.0.0/24, except: [10.1.1.0/24]}]`)...),
		of("ServerAuthorization", "P35 invalid", "spec", "10.1.0.300", clients(`networks: [{cidr: 10.1.0.300/24}]`)...),
		of("ServerAuthorization", "P36", "spec.client", "exclude", clients(`unauthenticated: true, meshTLS: {unauthenticatedTLS: true}`, `unauthenticated: true, meshTLS: {}`)...),
		of("ServerAuthorization", "P37", "spec.client.meshTLS.unauthenticatedTLS", "", clients(`meshTLS: {unauthenticatedTLS: true, identities: [a]}`, `meshTLS: {unauthenticatedTLS: true, serviceAccounts: [{name: a}]}`)...),
		of("ServerAuthorization", "P38", "", "", clients(`networks: [{cidr: 10.1.0.1}]`)...),
		of("ServerAuthorization", "no authentication", "", "", clients(``, `networks: []`)...),
		of("ServerAuthorization", "no client", "spec", "client", `{server: {name: s}}`),

		of("EgressNetwork", "P39", "", "", `{trafficPolicy: Allow, networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}, {cidr: 192.0.2.0/24}]}`),
		of("EgressNetwork", "P40", "spec.networks", "at least one", `{trafficPolicy: Deny, networks: []}`),
		of("EgressNetwork", "P41", "", "", `{trafficPolicy: Allow}`),
		of("EgressNetwork", "except", "spec.networks[0].except[0]", "negated", `{trafficPolicy: Deny, networks: [{cidr: 10.0.0.0/8, except: [0.0.0.0/0]}]}`),
		of("EgressNetwork", "unknown policy", "spec", "trafficPolicy", `{trafficPolicy: Maybe}`, `{}`),

		of("HTTPLocalRateLimitPolicy", "P42", "", "", limits(`total: {requestsPerSecond: 1000}, identity: {requestsPerSecond: 100}, overrides: [{requestsPerSecond: 200, clientRefs: [{kind: ServiceAccount, name: a}]}]`)...),
		of("HTTPLocalRateLimitPolicy", "P43", "spec.targetRef.kind", "Deployment.apps", `{targetRef: {group: apps, kind: Deployment, name: d}, total: {requestsPerSecond: 1}}`),
		of("HTTPLocalRateLimitPolicy", "P44", "spec.identity.requestsPerSecond", "exceeds", limits(`total: {requestsPerSecond: 1}, identity: {requestsPerSecond: 2}`)...),
		of("HTTPLocalRateLimitPolicy", "P45", "spec.overrides[0].requestsPerSecond", "exceeds", limits(`total: {requestsPerSecond: 1}, overrides: [{requestsPerSecond: 2, clientRefs: []}]`)...),
		of("HTTPLocalRateLimitPolicy", "P46 total", "spec.total.requestsPerSecond", "positive", limits(`total: {requestsPerSecond: 0}`)...),
		of("HTTPLocalRateLimitPolicy", "P46 identity", "spec.identity.requestsPerSecond", "positive", limits(`identity: {requestsPerSecond: 0}`)...),
		of("HTTPLocalRateLimitPolicy", "P46 override", "spec.overrides[0].requestsPerSecond", "positive", limits(`overrides: [{requestsPerSecond: 0, clientRefs: []}]`)...),
		of("HTTPLocalRateLimitPolicy", "P47", "spec.overrides[0].clientRefs[0].kind", "Pod", limits(`overrides: [{requestsPerSecond: 1, clientRefs: [{kind: Pod, name: p}]}]`)...),
		of("HTTPLocalRateLimitPolicy", "no limit", "", "", `{targetRef: {group: policy.linkerd.io, kind: Server, name: s}}`),
		of("HTTPLocalRateLimitPolicy", "more than 32 bits", "spec.total.requestsPerSecond", "number 4294967296 where uint32 is expected", limits(`total: {requestsPerSecond: 4294967296}`)...),
		of("HTTPLocalRateLimitPolicy", "negative", "spec.total.requestsPerSecond", "", limits(`total: {requestsPerSecond: -1}`)...),
	}
)

func match(match string) string {
	return "{" + serverParent + ", rules: [{matches: [{" + match + "}]}]}"
}

func filter(filter string) string {
	return "{" + serverParent + ", rules: [{filters: [{" + filter + "}]}]}"
}

func backend(backend string) string {
	return "{" + gatewayParent + ", rules: [{backendRefs: [{" + backend + "}]}]}"
}

func limitsOf(timeouts string) string {
	return "{" + serviceParent + ", rules: [{timeouts: {" + timeouts + "}}]}"
}

func annotation(name, value string) map[string]string { return map[string]string{name: value} }

func routeRows() []row {
	var rows []row
	add := func(more []row) { rows = append(rows, more...) }
	service := "{" + serviceParent + ", rules: [{}]}"
	badHTTP := annotation("retry.linkerd.io/http", "bogus")

	add(routes("pol", "P48", "", "", nil, match(`path: {type: Exact, value: /foo/bar}`)))
	add(routes("pol http grpc tls tcp", "P49", "", "", nil, "{"+egressParent+", "+oneRule+"}"))
	add(routes("pol http grpc tls tcp", "P50", "spec.parentRefs[0].port", "EgressNetwork", nil, "{"+egressNoPort+", "+oneRule+"}",
		"{parentRefs: [{group: Policy.linkerd.io, kind: egressnetwork, name: e}], "+oneRule+"}"))
	add(routes("pol http", "P51", "spec.rules[0].matches[0].path.value", "foo/bar", nil, match(`path: {type: Exact, value: foo/bar}`),
		match(`path: {type: PathPrefix, value: foo/bar}`), match(`path: {value: foo/bar}`)))
	add(routes("pol http", "regular paths", "", "", nil, match(`path: {type: RegularExpression, value: "foo/bar"}`), match(`path: {}`), match(``)))
	add(routes("pol http", "bad regular path", "spec.rules[0].matches[0].path.value", "compile", nil, match(`path: {type: RegularExpression, value: "["}`),
		match(`path: {type: RegularExpression, value: "/users/{id}"}`)))
	add(routes("pol http", "bad header", "spec.rules[0].matches[0].headers[0].name", "a b", nil, match(`headers: [{name: "a b", value: c}]`)))
	add(routes("pol http", "bad header value", "spec.rules[0].matches[0].headers[1].value", "", nil, match(`headers: [{name: a, value: c}, {name: b, value: "\n"}]`)))
	add(routes("pol http", "bad regular header", "spec.rules[0].matches[0].headers[0].value", "compile", nil, match(`headers: [{name: a, type: RegularExpression, value: "("}]`)))
	add(routes("pol http", "bad regular parameter", "spec.rules[0].matches[0].queryParams[0].value", "compile", nil, match(`queryParams: [{name: a, type: RegularExpression, value: "("}]`)))
	add(routes("pol http", "P52", "spec.rules[0].filters[0].requestRedirect.path.replaceFullPath", "foo/bar", nil,
		filter(`type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: foo/bar}}`)))
	add(routes("pol http", "relative prefix", "spec.rules[0].filters[0].requestRedirect.path.replacePrefixMatch", "foo", nil,
		filter(`type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: foo}}`)))
	add(routes("pol http", "no replacement", "spec.rules[0].filters[0].requestRedirect.path", "replace_prefix_match", nil,
		filter(`type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch}}`)))
	add(routes("pol http", "bad status", "spec.rules[0].filters[0].requestRedirect.statusCode", "99", nil, filter(`type: RequestRedirect, requestRedirect: {statusCode: 99}`)))
	add(routes("pol http", "bad added header", "spec.rules[0].filters[0].requestHeaderModifier.add[0].value", "", nil,
		filter(`type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: a, value: "\n"}]}`)))
	add(routes("pol http grpc", "bad removed header", "spec.rules[0].filters[0].responseHeaderModifier.remove[0]", "", nil,
		filter(`type: ResponseHeaderModifier, responseHeaderModifier: {remove: ["a:"]}`)))
	add(routes("http", "P53", "", "", nil,
		filter(`type: RequestMirror, requestMirror: {backendRef: {name: a}}`),
		filter(`type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: a}}`),
		filter(`type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}`),
		filter(`type: RequestRedirect`)))
	add(routes("pol", "P53 elsewhere", "spec.rules[0].filters[0].type", "", nil,
		filter(`type: RequestMirror, requestMirror: {backendRef: {name: a}}`), filter(`type: RequestRedirect`)))
	add(routes("pol http", "G2 filters of backends are those of the Gateway API", "", "", nil,
		backend(`name: a, port: 1, filters: [{type: RequestHeaderModifier, requestRedirect: {}}, {type: RequestRedirect}, {type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]`)))
	add(routes("pol", "G2 but of a type that exists", "spec.rules[0].backendRefs[0].filters[0].type", "CORS", nil, backend(`name: a, filters: [{type: CORS}]`)))
	add(routes("http grpc", "P54", "", "", nil, backend(`group: a.b, kind: C, name: a`), backend(`kind: Other, name: a`), backend(`kind: service, name: a`)))
	add(routes("http grpc", "P55", "", "", nil, backend(`kind: Service, name: a, port: 80`), backend(`name: a, port: 80`), backend(`group: core, name: a, port: 80`)))
	add(routes("http grpc", "P56", "spec.rules[0].backendRefs[0].port", "invalid backendRef", nil, backend(`kind: Service, name: a`), backend(`name: a`),
		backend(`group: "", name: a, port: 0`), backend(`group: core, kind: Service, name: a`)))
	add(routes("pol", "P56 is not checked", "", "", nil, backend(`kind: Service, name: a`)))
	add(routes("tls tcp", "P57", "spec.rules", "single rule", nil, "{"+serviceParent+", rules: [{}, {}]}", "{"+gatewayParent+", rules: []}"))
	add(routes("tls tcp", "G8 without rules it is not decodable, and so for others to judge", "", "", nil, "{"+gatewayParent+"}"))
	add(routes("pol", "G8 reference without name", "spec.parentRefs[0].name", "missing", nil, `{parentRefs: [{group: core, kind: Service}]}`))
	add(routes("pol", "G8 backend without name", "spec.rules[0].backendRefs[0].name", "missing", nil, backend(`port: 80`)))
	add(routes("http grpc", "G8 not decodable, and so for others to judge", "", "", nil, backend(`port: 80`), match(`headers: [{name: "a b"}]`)))
	add(routes("pol", "P58", "spec.rules[0].timeouts.backendRequest", "20s exceeds request, which is 10s", nil, limitsOf(`request: 10s, backendRequest: 20s`)))
	add(routes("pol", "P59", "spec.rules[0].timeouts.backendRequest", "exceeds", nil, limitsOf(`request: 0s, backendRequest: 5s`), limitsOf(`request: "", backendRequest: 5s`)))
	add(routes("pol", "P60", "spec.rules[0].timeouts.request", "negative", nil, limitsOf(`request: -5s`)))
	add(routes("pol", "negative backend timeout", "spec.rules[0].timeouts.backendRequest", "negative", nil, limitsOf(`request: -5s, backendRequest: -5s`)))
	add(routes("pol", "timeouts", "", "", nil, limitsOf(`request: 1h30m, backendRequest: 1.5s`), limitsOf(`backendRequest: 5s`)))
	add(routes("pol", "undecodable timeout", "spec.rules[0].timeouts.request", "soon", nil, limitsOf(`request: soon`)))
	add(routes("http", "P58 to P60 are left to the schema", "", "", nil, limitsOf(`request: 10s, backendRequest: 20s`), limitsOf(`request: -5s`), limitsOf(`request: soon`)))
	add(routes("pol http", "P61", "metadata.annotations", "retry.linkerd.io/http", badHTTP, service, "{"+egressParent+"}"))
	add(routes("pol http", "P62", "", "", badHTTP, "{"+serverParent+"}", "{"+gatewayParent+"}"))
	add(routes("grpc", "P63", "metadata.annotations", "retry.linkerd.io/grpc", annotation("retry.linkerd.io/grpc", "foo"), service))
	add(routes("grpc", "P63 of the other protocol", "", "", annotation("retry.linkerd.io/http", "bogus"), service))
	add(routes("http pol", "P63 of the other protocol", "", "", annotation("retry.linkerd.io/grpc", "foo"), service))
	add(routes("tls tcp", "annotations are not read", "", "", annotation("retry.linkerd.io/limit", "x"), service))
	add(routes("pol http grpc", "timeout annotation", "metadata.annotations", "timeout.linkerd.io/request", annotation("timeout.linkerd.io/request", "-1s"), service))
	add(routes("pol http grpc tls tcp", "P64", "", "", annotation("balancer.linkerd.io/failure-accrual", "nonsense"), service))
	add(routes("http grpc tls tcp", "P65", "", "", nil, `{rules: "x"}`, `{parentRefs: [{name: 1}], rules: []}`, `x`, `null`))
	add(routes("pol", "P66", "spec.rules", "string where array is expected", nil, `{rules: "x"}`))
	add(routes("pol", "P66 no spec", "spec", "", nil, `x`, `null`))
	add(routes("grpc", "P67", "spec.rules[0].matches[0].method.type", "RegularExpression", nil, match(`method: {type: RegularExpression, method: a}`)))
	add(routes("grpc", "methods", "", "", nil, match(`method: {}`), match(`method: {service: a, method: b}`), match(``)))
	add(routes("grpc", "bad header", "spec.rules[0].matches[0].headers[0].name", "", nil, match(`headers: [{name: "", value: c}]`)))
	add(routes("http", "B69", "", "", nil,
		filter(`type: CORS, cors: {allowOrigins: ["*"]}`),
		"{"+gatewayParent+", rules: [{matches: [{path: {value: relative}}], filters: [{type: CORS}]}]}",
		match(`method: QUERY`), match(`path: {type: Glob, value: "*"}`), match(`headers: [{name: a, type: Prefix, value: b}]`)))
	add(routes("http", "B69 next to what is wrong", "", "", nil,
		match(`queryParams: [{name: a, type: Prefix, value: b}], headers: [{name: "", value: c}]`),
		filter(`type: RequestRedirect, requestRedirect: {scheme: ftp, statusCode: 99}`), filter(`type: RequestRedirect, requestRedirect: {path: {type: ReplaceRegex}}`),
		filter(`type: URLRewrite, requestRedirect: {statusCode: 99}, urlRewrite: {path: {type: ReplaceRegex}}`)))
	add(routes("grpc", "B69 next to what is wrong", "", "", nil,
		match(`method: {type: Prefix}, headers: [{name: "", value: c}]`), match(`headers: [{name: "", type: Prefix, value: c}]`),
		filter(`type: CORS, requestHeaderModifier: {remove: [""]}`),
		"{"+gatewayParent+", rules: [{backendRefs: [{name: a, filters: [{type: CORS}]}]}]}"))
	add(routes("pol", "B69 is strict here", "spec.rules[0].filters[0].type", "CORS", nil, filter(`type: CORS`)))
	add(routes("pol", "B69 is strict here, too", "spec.rules[0].filters[0].requestRedirect.scheme", "ftp", nil, filter(`type: RequestRedirect, requestRedirect: {scheme: ftp}`)))
	add(routes("pol", "undecodable backend timeout", "spec.rules[0].timeouts.backendRequest", "soon", nil, limitsOf(`request: 1s, backendRequest: soon`)))
	add(routes("pol http grpc tls tcp", "parents of other kinds", "", "", nil, "{parentRefs: [{group: a.b, kind: C, name: d}, {name: e}], "+oneRule+"}"))
	add(routes("pol http", "parents of other namespaces", "", "", nil, "{parentRefs: [{group: policy.linkerd.io, kind: Server, name: d, namespace: other, port: 80}]}"))
	return rows
}

func allRows() []row { return append(routeRows(), policyRows...) }

func (r row) object(tb testing.TB, spec string) []byte {
	object := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "ns", "annotations": r.annotations}}
	var value any
	if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
		tb.Fatal(spec, err)
	}
	object["spec"] = value
	data, err := yaml.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestCheck(t *testing.T) {
	for _, row := range allRows() {
		for _, spec := range row.specs {
			rulebook.Run(t, row.id+" "+row.kind+" "+spec, func(t *testing.T) {
				got := problems.Refusal(Check(schema.GroupKind{Group: row.group, Kind: row.kind}, "ns", row.object(t, spec)))
				switch {
				case row.field == "" && got != nil:
					t.Errorf("denied: %s", got)
				case row.field != "" && got == nil:
					t.Error("allowed")
				case got != nil && (got.Field != row.field || !strings.Contains(got.Message, row.message)):
					t.Errorf("got %q %q, want field %q and a message with %q", got.Field, got.Message, row.field, row.message)
				}
			})
		}
	}
}

// TestCheckObject covers objects without what a check needs.
func TestCheckObject(t *testing.T) {
	tests := []struct {
		name, group, kind, object string
		field                     string
	}{
		{"no object", policyGroup, "Server", ``, "object"},
		{"null", policyGroup, "Server", `null`, "object"},
		{"no JSON", policyGroup, "Server", `{`, "object"},
		{"no spec", policyGroup, "Server", `{}`, "spec"},
		{"a newer or older version", policyGroup, "sERVER", `{"spec":{"port":80,"podSelector":{}}}`, ""},
		{"lenient: no object", gatewayGroup, "HTTPRoute", ``, ""},
		{"lenient: no spec", gatewayGroup, "GRPCRoute", `{}`, ""},
		{"lenient: odd annotations", gatewayGroup, "HTTPRoute", `{"metadata":{"annotations":[]},"spec":{}}`, ""},
		{"strict: odd annotations", policyGroup, "HTTPRoute", `{"metadata":{"annotations":[]},"spec":{}}`, "object"},
		{"unknown kind", "", "ConfigMap", `{}`, ""},
		{"unknown kind of a known group", gatewayGroup, "Gateway", `{}`, ""},
	}
	for _, test := range tests {
		rulebook.Run(t, test.name, func(t *testing.T) {
			field := ""
			if p := problems.Refusal(Check(schema.GroupKind{Group: test.group, Kind: test.kind}, "", []byte(test.object))); p != nil {
				field = p.Field
			}
			if field != test.field {
				t.Errorf("field %q, want %q", field, test.field)
			}
		})
	}
	own := []byte(`{"metadata":{"namespace":"ns"},"spec":{"targetRef":{"kind":"Namespace","name":"ns"},"requiredAuthenticationRefs":[]}}`)
	if p := problems.Refusal(Check(schema.GroupKind{Group: policyGroup, Kind: "AuthorizationPolicy"}, "", own)); p != nil {
		t.Errorf("the object's own namespace does not count: %s", p)
	}
}

func TestCheckIdentityDetails(t *testing.T) {
	for identity, want := range map[string]string{
		"A":              "neither",
		"spiffe://":      "no trust domain",
		"spiffe://a:1/b": "trust domain has the character ':'",
		"spiffe://a/b?":  "path has the character '?'",
		"spiffe://a//b":  "empty segment",
		"spiffe://a/.":   "segment \".\"",
		"spiffe://a/b/":  "ends with a slash",
	} {
		if err := checkIdentity(identity); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", identity, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	kinds := []schema.GroupKind{}
	for _, row := range allRows() {
		kinds = append(kinds, schema.GroupKind{Group: row.group, Kind: row.kind})
		for _, spec := range row.specs {
			f.Add(uint8(len(kinds)-1), row.object(f, spec))
		}
	}
	f.Fuzz(func(t *testing.T, index uint8, data []byte) {
		for _, p := range Check(kinds[int(index)%len(kinds)], "ns", data) {
			if p.Field == "" || p.Message == "" || p.Severity == "" || p.Object.Kind == "" {
				t.Errorf("a problem without field, message, severity or object: %q", p)
			}
		}
	})
}

// What is admitted although it is odd, or cannot be decided, is warned of.
func TestWarnings(t *testing.T) {
	for _, row := range []struct {
		name, kinds, spec string
		// field is that of the only warning and message a part of its text.
		field, message string
	}{
		{"G2 a filter of one type with the field of another", "pol http", backend(`name: a, port: 1, filters: [{type: RequestHeaderModifier, requestRedirect: {}}]`),
			"spec.rules[0].backendRefs[0].filters[0]", "of the type RequestHeaderModifier, but has the field RequestRedirect"},
		{"G2 with both fields", "pol http", backend(`name: a, port: 1, filters: [{type: RequestRedirect, requestRedirect: {}, requestHeaderModifier: {}}]`),
			"spec.rules[0].backendRefs[0].filters[0]", "RequestHeaderModifier, which is what counts"},
		{"G2 in a rule", "http", filter(`type: URLRewrite, responseHeaderModifier: {}`), "spec.rules[0].filters[0]", "of the type URLRewrite"},
		{"G2 the type of a rule's filter decides", "pol", filter(`type: RequestHeaderModifier, requestHeaderModifier: {}, requestRedirect: {scheme: ftp}`), "", ""},
		{"G2 filters of backends that do what they say", "pol http", backend(`name: a, port: 1, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: b}}}, {type: RequestRedirect}]`), "", ""},
		{"G5 a class that is not known here", "pol http", match(`path: {type: RegularExpression, value: '\p{Emoji}'}`), "spec.rules[0].matches[0].path.value", "not known here"},
		{"G5 of a header", "pol http grpc", match(`headers: [{name: a, value: b}, {name: a, type: RegularExpression, value: '\w{1000}'}]`), "spec.rules[0].matches[0].headers[1].value", "too large"},
		{"G5 of a parameter", "pol http", match(`queryParams: [{name: a, type: RegularExpression, value: '(?-u)a'}]`), "spec.rules[0].matches[0].queryParams[0].value", "UTF-8"},
		{"G5 what is decided", "pol http", match(`path: {type: RegularExpression, value: '(?R)[a--b]\u{61}x{1001}'}, headers: [{name: a, value: "\tü"}]`), "", ""},
	} {
		for _, r := range routes(row.kinds, row.name, row.field, row.message, nil, row.spec) {
			t.Run(r.id, func(t *testing.T) {
				found := Check(schema.GroupKind{Group: r.group, Kind: r.kind}, "ns", r.object(t, row.spec))
				switch {
				case problems.Refusal(found) != nil:
					t.Errorf("denied: %s", problems.Refusal(found))
				case row.field == "" && len(found) == 0:
				case len(found) != 1 || found[0].Field != row.field || !strings.Contains(found[0].Message, row.message):
					t.Errorf("warnings %v, want one of %s with %q", found, row.field, row.message)
				}
			})
		}
	}
}
