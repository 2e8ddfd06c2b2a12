package outbound

import (
	"fmt"
	"strings"
)

// service is a Service of ns with the ports 4191 and 9999; spec and annotations
// are added in YAML's flow form.
func service(name, ip string, annotations ...string) string {
	return serviceSpec(name, fmt.Sprintf("clusterIPs: [%s], ports: [{name: a, port: 4191}, {name: b, port: 9999}]", ip), annotations...)
}

func serviceSpec(name, spec string, annotations ...string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: ns, name: %s, annotations: {%s}}, spec: {%s}}",
		name, strings.Join(annotations, ", "), spec)
}

// mySvc and backend are the fixtures SVC and BACK.
func mySvc(annotations ...string) string { return service("my-svc", "10.96.0.10", annotations...) }

var backendSvc = serviceSpec("backend", "clusterIPs: [10.96.0.11], ports: [{port: 80}]")

// egress is an EgressNetwork of ns; networks "" are the default ones.
func egress(name, policy, networks string, annotations ...string) string {
	return egressOf("ns", name, policy, networks, annotations...)
}

func egressOf(namespace, name, policy, networks string, annotations ...string) string {
	if networks != "" {
		networks = ", networks: " + networks
	}
	return fmt.Sprintf("{apiVersion: policy.linkerd.io/v1alpha1, kind: EgressNetwork, metadata: {namespace: %s, name: %s, annotations: {%s}}, spec: {trafficPolicy: %s%s}}",
		namespace, name, strings.Join(annotations, ", "), policy, networks)
}

// variant is a kind of route, as the scenarios name it.
type variant struct{ name, api, kind string }

var (
	gwHTTP  = variant{"gwHTTP", "gateway.networking.k8s.io/v1", "HTTPRoute"}
	polHTTP = variant{"polHTTP", "policy.linkerd.io/v1beta3", "HTTPRoute"}
	grpc_   = variant{"GRPC", "gateway.networking.k8s.io/v1", "GRPCRoute"}
	tls_    = variant{"TLS", "gateway.networking.k8s.io/v1alpha2", "TLSRoute"}
	tcp_    = variant{"TCP", "gateway.networking.k8s.io/v1alpha2", "TCPRoute"}

	httpVariants = []variant{gwHTTP, polHTTP}
	l7Variants   = []variant{gwHTTP, polHTTP, grpc_}
	allVariants  = []variant{gwHTTP, polHTTP, grpc_, tls_, tcp_}
)

// of is the name that remove takes.
func (v variant) of(namespace, name string) string {
	kind := v.kind
	if v == gwHTTP {
		kind = "GatewayHTTPRoute"
	}
	return kind + "/" + namespace + "/" + name
}

// line is how the summary begins the route.
func (v variant) line(name string) string {
	group := strings.Split(v.api, "/")[0]
	protocol := map[string]string{"HTTPRoute": "http", "GRPCRoute": "grpc", "TLSRoute": "tls", "TCPRoute": "opaque"}[v.kind]
	return fmt.Sprintf("%s %s/%s ns/%s", protocol, group, v.kind, name)
}

// routeDoc is a route; empty fields have defaults.
type routeDoc struct {
	namespace, name string
	annotations     string
	// parents are the inner parts of references. The status accepts them all.
	parents []string
	// rules, by default one without matches.
	rules      string
	hostnames  string
	created    string
	unaccepted bool
	// status replaces the references that the status accepts.
	status []string
}

const (
	toSvc = "group: core, kind: Service, name: my-svc, port: 4191"
	toEgr = "group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 4191"
)

func (v variant) route(r routeDoc) string {
	if r.namespace == "" {
		r.namespace = "ns"
	}
	if r.name == "" {
		r.name = "route"
	}
	if r.parents == nil {
		r.parents = []string{toSvc}
	}
	if r.rules == "" {
		r.rules = "[{}]"
	}
	if r.created != "" {
		r.created = fmt.Sprintf(", creationTimestamp: %q", r.created)
	}
	if r.hostnames != "" {
		r.hostnames = ", hostnames: " + r.hostnames
	}
	var refs, statuses []string
	for _, parent := range r.parents {
		refs = append(refs, "{"+parent+"}")
	}
	if r.status == nil {
		r.status = r.parents
	}
	for _, parent := range r.status {
		statuses = append(statuses, fmt.Sprintf("{controllerName: linkerd.io/policy-controller, parentRef: {%s}, conditions: [{type: Accepted, status: %q}]}", parent, map[bool]string{false: "True", true: "False"}[r.unaccepted]))
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s, annotations: {%s}%s}, spec: {parentRefs: [%s], rules: %s%s}, status: {parents: [%s]}}",
		v.api, v.kind, r.namespace, r.name, r.annotations, r.created, strings.Join(refs, ", "), r.rules, r.hostnames, strings.Join(statuses, ", "))
}

// parentFixture is a row's parent: SVC or EGR.
type parentFixture struct {
	name string
	doc  func(annotations ...string) string
	// ref and address lead to it, backend is a reference to it or another Service.
	ref, address, backend string
	// resource is how summaries write it with port 4191, own how they write
	// it as a backend.
	resource, own string
	// rest is what follows the routes of each kind.
	rest map[string]string
}

var (
	svcParent = parentFixture{
		name: "SVC", doc: mySvc, ref: toSvc, address: "10.96.0.10:4191",
		backend:  "kind: Service, name: backend, port: 8888",
		resource: "Service ns/my-svc:4191", own: "Service ns/my-svc:4191",
	}
	egrParent = parentFixture{
		name: "EGR", doc: func(annotations ...string) string { return egress("my-egress", "Allow", "", annotations...) },
		ref: toEgr, address: "1.1.1.1:4191",
		backend:  "group: policy.linkerd.io, kind: EgressNetwork, name: my-egress, port: 8888",
		resource: "EgressNetwork ns/my-egress:4191", own: "EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191",
		rest: map[string]string{
			"http": "\nhttp http-egress-allow\n  (path:{prefix:/}) -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191",
			"grpc": "\ngrpc grpc-egress-allow\n  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191",
			"tls":  "\ntls tls-egress-allow\n  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191",
		},
	}
	bothParents = []parentFixture{svcParent, egrParent}
)

// Summaries of the policies without routes.
const (
	defaultPolicy = `Service ns/my-svc:4191 detect
opaque opaq
  -> first Service ns/my-svc:4191
http http
  (path:{prefix:/}) -> first Service ns/my-svc:4191`
	egressPolicy = `EgressNetwork ns/my-egress:4191 detect
opaque tcp-egress-allow
  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191
http http-egress-allow
  (path:{prefix:/}) -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191`
	fallbackPolicy = `egress-fallback detect
opaque egress-fallback
  -> first egress-fallback at 1.1.1.1:80
http egress-fallback
  () -> first egress-fallback at 1.1.1.1:80`
)

// routesOf returns the lines of a summary from the first route of a protocol on.
func routesOf(protocol, text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && strings.HasPrefix(line, protocol+" ") {
			return strings.Join(lines[i:], "\n")
		}
	}
	return text
}

func head(text string) string { return strings.Split(text, "\n")[0] }
