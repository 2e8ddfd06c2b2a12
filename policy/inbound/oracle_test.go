package inbound

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// object is one of the cluster's, as it was written.
type object struct {
	Kind, APIVersion string
	Metadata         struct {
		Namespace, Name, CreationTimestamp string
		Labels, Annotations                map[string]string
	}
	Spec   map[string]any
	Status map[string]any
}

// at follows a path of names through what was written; nil is nothing.
func at(value any, path ...string) any {
	for _, name := range path {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}

func text(value any, path ...string) string {
	s, _ := at(value, path...).(string)
	return s
}

func items(value any, path ...string) []any {
	list, _ := at(value, path...).([]any)
	return list
}

// oracle says what the rules say of a port, from all objects at once and without
// regard to time. It shares no code with what it is compared with.
type oracle map[string]object

// of are the objects of a kind in a namespace, by age and then name.
func (o oracle) of(kind, namespace string) []object {
	var list []object
	for key, obj := range o {
		if strings.HasPrefix(key, kind+"/"+namespace+"/") {
			list = append(list, obj)
		}
	}
	slices.SortFunc(list, func(a, b object) int {
		return strings.Compare(a.Metadata.CreationTimestamp+"/"+a.Metadata.Name, b.Metadata.CreationTimestamp+"/"+b.Metadata.Name)
	})
	return list
}

func (o oracle) port(kind, name string, port int) string {
	workload, ok := o[kind+"/ns/"+name]
	if !ok || kind == "Pod" && workload.Metadata.Labels["linkerd.io/control-plane-ns"] == "" {
		return "NotFound unknown server"
	}
	named, probes := map[string][]int{}, map[string]bool{}
	for _, container := range slices.Concat(items(workload.Spec, "containers"), items(workload.Spec, "initContainers")) {
		for _, p := range items(container, "ports") {
			if protocol := text(p, "protocol"); protocol == "" || protocol == "TCP" {
				named[text(p, "name")] = append(named[text(p, "name")], int(at(p, "containerPort").(float64)))
			}
		}
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			if number, ok := at(container, probe, "httpGet", "port").(float64); ok && int(number) == port {
				probes["path:{exact:"+text(container, probe, "httpGet", "path")+"} method:{registered:GET}"] = true
			}
		}
	}
	for _, p := range items(workload.Spec, "ports") {
		named[text(p, "name")] = []int{int(at(p, "port").(float64))}
	}
	probeRoute := ""
	if len(probes) > 0 {
		probeRoute = "\nroute default:probe\n  rule " + strings.Join(slices.Sorted(maps.Keys(probes)), "; ") + "\n  authz default/probe unauthenticated from all"
	}
	for _, server := range o.of("Server", "ns") {
		selector := map[string]string{"Pod": "podSelector", "ExternalWorkload": "externalWorkloadSelector"}[kind]
		if at(server.Spec, selector) == nil || !selects(at(server.Spec, selector), workload.Metadata.Labels) {
			continue
		}
		ports := named[text(server.Spec, "port")]
		if number, ok := at(server.Spec, "port").(float64); ok {
			ports = []int{int(number)}
		}
		if slices.Contains(ports, port) {
			return o.server(server, probeRoute)
		}
	}
	policy := "all-unauthenticated"
	if annotated := workload.Metadata.Annotations["config.linkerd.io/default-inbound-policy"]; annotated != "bogus" && annotated != "" {
		policy = annotated
	}
	if workload.Metadata.Annotations["config.linkerd.io/proxy-require-identity-inbound-ports"] == fmt.Sprint(port) {
		policy = strings.Replace(policy, "unauthenticated", "authenticated", 1)
	}
	out := "default/" + policy
	if workload.Metadata.Annotations["config.linkerd.io/opaque-ports"] == fmt.Sprint(port) {
		return out + " opaque" + byDefault(policy)
	}
	return out + " detect 10s" + byDefault(policy) + defaultRoute + probeRoute
}

func selects(selector any, labels map[string]string) bool {
	for name, value := range at(selector, "matchLabels").(map[string]any) {
		if labels[name] != value {
			return false
		}
	}
	return true
}

func byDefault(policy string) string {
	how := map[string]string{
		"all-unauthenticated": "unauthenticated from all", "audit": "unauthenticated from all",
		"all-authenticated": "meshTLS:{identities:{suffixes:[{}]}} from all", "cluster-authenticated": "meshTLS:{identities:{suffixes:[{}]}} from cluster",
		"cluster-unauthenticated": "unauthenticated from cluster",
	}[policy]
	if how == "" {
		return ""
	}
	return "\nauthz default/" + policy + " " + how
}

func (o oracle) server(server object, probeRoute string) string {
	name := server.Metadata.Name
	wire := map[string]string{"": "detect 10s", "unknown": "detect 10s", "HTTP/1": "http1", "HTTP/2": "http2", "gRPC": "grpc", "opaque": "opaque", "TLS": "tls"}
	protocol := wire[text(server.Spec, "proxyProtocol")]
	out := "policy.linkerd.io server/" + name + " " + protocol
	out += o.policies(func(target any) bool {
		return text(target, "kind") == "Namespace" || text(target, "kind") == "Server" && text(target, "name") == name
	}, "\nauthz ")
	authorizations := o.of("ServerAuthorization", "ns")
	slices.SortFunc(authorizations, func(a, b object) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	for _, saz := range authorizations {
		by := at(saz.Spec, "server")
		if byName, ok := at(by, "name").(string); ok && byName != name || !ok && at(by, "selector") != nil && !selects(at(by, "selector"), server.Metadata.Labels) {
			continue
		}
		out += "\nauthz serverauthorization/" + saz.Metadata.Name + " unauthenticated from cluster"
	}
	out += byDefault(text(server.Spec, "accessPolicy"))
	if protocol == "opaque" || protocol == "tls" {
		return out
	}
	type kind struct{ key, group, name string }
	kinds := []kind{{"HTTPRoute", "policy.linkerd.io", "HTTPRoute"}, {"GatewayHTTPRoute", "gateway.networking.k8s.io", "HTTPRoute"}}
	if protocol == "grpc" {
		kinds = []kind{{"GRPCRoute", "gateway.networking.k8s.io", "GRPCRoute"}}
	}
	routes := map[string]string{} // by what they are sorted by
	for _, k := range kinds {
		for _, route := range o.of(k.key, "ns") {
			if !attached(route, name) {
				continue
			}
			routes[strings.Join([]string{route.Metadata.CreationTimestamp, route.Metadata.Name, k.group}, "/")] = "\nroute resource:{group:" + k.group + " kind:" + k.name + " name:" + route.Metadata.Name + "}\n  rule " +
				o.policies(func(target any) bool {
					return strings.EqualFold(text(target, "kind"), k.name) && text(target, "group") == k.group && text(target, "name") == route.Metadata.Name
				}, "\n  authz ")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(routes)) {
		out += routes[key]
	}
	switch {
	case len(routes) == 0 && protocol == "grpc":
		out += "\nroute default:default\n  rule rpc:{}"
	case len(routes) == 0:
		out += defaultRoute + probeRoute
	}
	if protocol == "grpc" {
		return out
	}
	for _, limit := range o.of("HTTPLocalRateLimitPolicy", "ns") {
		if text(limit.Spec, "targetRef", "name") == name && text(items(limit.Status, "conditions")[0], "status") == "True" {
			return out + "\nlimit metadata:{resource:{group:policy.linkerd.io kind:HTTPLocalRateLimitPolicy name:" + limit.Metadata.Name + "}} total:{requestsPerSecond:5}"
		}
	}
	return out
}

func attached(route object, server string) bool {
	parent := false
	for _, ref := range items(route.Spec, "parentRefs") {
		if at(ref, "port") != nil {
			return false
		}
		parent = parent || text(ref, "name") == server
	}
	accepted := items(route.Status, "parents")[0]
	return parent && text(accepted, "parentRef", "name") == server && text(items(accepted, "conditions")[0], "status") == "True"
}

// policies are what AuthorizationPolicies for a target allow, by name.
func (o oracle) policies(isFor func(target any) bool, before string) (out string) {
	list := o.of("AuthorizationPolicy", "ns")
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	for _, policy := range list {
		if isFor(at(policy.Spec, "targetRef")) {
			if how := o.requires(items(policy.Spec, "requiredAuthenticationRefs")); how != "" {
				out += before + "authorizationpolicy/" + policy.Metadata.Name + " " + how
			}
		}
	}
	return out
}

// requires is how a client is authenticated, "" if nobody can be.
func (o oracle) requires(refs []any) string {
	who, where := "", ""
	for _, ref := range refs {
		namespace := text(ref, "namespace")
		if namespace == "" {
			namespace = "ns"
		}
		required, ok := o[text(ref, "kind")+"/"+namespace+"/"+text(ref, "name")]
		switch kind := text(ref, "kind"); {
		case kind == "ServiceAccount" && who == "":
			who = "meshTLS:{identities:{identities:[{name:" + text(ref, "name") + "." + namespace + ".serviceaccount.identity.linkerd.cluster.local}]}}"
		case kind == "MeshTLSAuthentication" && who == "" && ok:
			who = map[string]string{"a.b": "meshTLS:{identities:{identities:[{name:a.b}]}}", "*.c": "meshTLS:{identities:{suffixes:[{parts:[c]}]}}"}[items(required.Spec, "identities")[0].(string)]
		case kind == "NetworkAuthentication" && where == "" && ok:
			where = text(items(required.Spec, "networks")[0], "cidr")
		default:
			return ""
		}
	}
	if who == "" {
		who = "unauthenticated"
	}
	if where == "" {
		where = "all"
	}
	return who + " from " + where
}

// genCluster draws objects whose fields have to do with one another.
func genCluster(tb testing.TB) *rapid.Generator[map[string]string] {
	return rapid.Custom(func(t *rapid.T) map[string]string {
		drawn := map[string]string{}
		pick := func(options ...string) string { return rapid.SampledFrom(options).Draw(t, "pick") }
		add := func(key, meta, rest string) {
			if rapid.IntRange(0, 9).Draw(t, key) < 7 {
				kind, _, _ := strings.Cut(key, "/")
				namespace := strings.Split(key, "/")[1]
				drawn[key] = objects.JSON(tb, "apiVersion: "+map[string]string{"HTTPRoute": "policy.linkerd.io/v1beta3", "GatewayHTTPRoute": "gateway.networking.k8s.io/v1"}[kind]+"\nkind: "+strings.TrimPrefix(kind, "Gateway")+
					"\nmetadata: {namespace: "+namespace+", "+meta+"}\n"+rest)
			}
		}
		server := func() string { return pick("a", "b") }
		for _, name := range []string{"a", "b", "c"} {
			meta := func() string {
				return "name: " + name + ", creationTimestamp: '2026-01-01T00:00:0" + pick("1", "2", "3") + "Z', labels: {team: " + pick("red", "blue") + ", " + pick("linkerd.io/control-plane-ns: linkerd", "linkerd.io/control-plane-ns: linkerd", "plain: x") + "}"
			}
			annotated := func() string {
				return meta() + ", annotations: {config.linkerd.io/default-inbound-policy: " + pick("deny", "audit", "all-authenticated", "cluster-unauthenticated", "bogus") + ", config.linkerd.io/opaque-ports: '" + pick("80", "81", "") +
					"', config.linkerd.io/proxy-require-identity-inbound-ports: '" + pick("80", "81", "") + "'}"
			}
			container := func() string {
				return "{name: " + pick("p", "q") + ", ports: [{name: " + pick("http", "other") + ", containerPort: " + pick("80", "81") + ", protocol: " + pick("TCP", "TCP", "UDP") + "}], " + pick("livenessProbe", "startupProbe") + ": {httpGet: {path: /" + pick("l", "m") + ", port: " + pick("80", "81") + "}}}"
			}
			add("Pod/ns/"+name, annotated(), "spec: {containers: ["+container()+", "+container()+"], initContainers: ["+container()+"]}")
			add("ExternalWorkload/ns/"+name, annotated(), "spec: {meshTLS: {identity: a, serverName: a}, ports: [{name: http, port: "+pick("80", "81")+"}, {name: "+pick("http", "other")+", port: "+pick("80", "81")+"}]}")
			add("Server/ns/"+name, meta(), "spec: {"+pick("podSelector", "podSelector", "externalWorkloadSelector")+": {matchLabels: {"+pick("team: red", "team: blue", "")+"}}, port: "+pick("80", "81", "http", "other")+
				", proxyProtocol: "+pick("HTTP/1", "gRPC", "unknown", "opaque", "HTTP/2", "TLS")+", accessPolicy: "+pick("deny", "audit", "cluster-authenticated")+"}")
			add("ServerAuthorization/ns/"+name, meta(), "spec: {server: {"+pick("name: a", "name: b", "selector: {matchLabels: {team: red}}", "")+"}, client: {unauthenticated: true}}")
			ref := func() string {
				return pick("{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: "+server()+pick("}", ", namespace: far}"), "{group: policy.linkerd.io, kind: NetworkAuthentication, name: "+server()+pick("}", ", namespace: far}"), "{kind: ServiceAccount, name: x}")
			}
			add("AuthorizationPolicy/ns/"+name, meta(), "spec: {targetRef: {"+pick("group: policy.linkerd.io, kind: Server, name: "+server(), "kind: Namespace, name: ns",
				"group: policy.linkerd.io, kind: "+pick("HTTPRoute", "HttpRoute")+", name: "+server(), "group: gateway.networking.k8s.io, kind: HTTPRoute, name: "+server(), "group: gateway.networking.k8s.io, kind: GRPCRoute, name: "+server())+
				"}, requiredAuthenticationRefs: ["+pick("", ref(), ref()+", "+ref())+"]}")
			for _, namespace := range []string{"ns", "far"} {
				add("MeshTLSAuthentication/"+namespace+"/"+name, meta(), "spec: {identities: ["+pick("a.b", "'*.c'")+"]}")
				add("NetworkAuthentication/"+namespace+"/"+name, meta(), "spec: {networks: [{cidr: "+pick("10.0.0.0/8", "'::/0'")+"}]}")
			}
			for _, kind := range []string{"HTTPRoute", "GatewayHTTPRoute", "GRPCRoute"} {
				add(kind+"/ns/"+name, meta(), "spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: "+server()+"}, {group: policy.linkerd.io, kind: Server, name: "+server()+pick("", "", ", port: 80")+"}], rules: [{}]}\n"+
					"status: {parents: [{controllerName: linkerd.io/policy-controller, parentRef: {kind: Server, name: "+server()+"}, conditions: [{type: Accepted, status: '"+pick("True", "True", "False")+"'}]}]}")
			}
			add("HTTPLocalRateLimitPolicy/ns/"+name, meta(), "spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: "+server()+"}, total: {requestsPerSecond: 5}}\nstatus: {conditions: [{type: Accepted, status: '"+pick("True", "False")+"'}]}")
		}
		return drawn
	})
}

// Whatever the objects, and whatever they were before, a port has what the rules say
// (policy-inbound 3 to 9), for new calls and for streams that saw it all.
func TestAnswersAreThoseOfTheCatalogue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c, want := newCluster(t, defaultConfig()), oracle{}
		var watched []watchedPort
		for _, kind := range []string{"Pod", "ExternalWorkload"} {
			for _, name := range []string{"a", "b", "c"} {
				for _, number := range []int{80, 81, 82} {
					watched = append(watched, c.watched(kind, name, number))
				}
			}
		}
		check := func() {
			c.graph.Flush()
			for _, w := range watched {
				want := strings.TrimSpace(want.port(w.kind, w.name, w.number))
				if got := w.newest(); got != want {
					rt.Fatalf("stream of %s %s, port %d:\n%s\nwant\n%s", w.kind, w.name, w.number, got, want)
				}
				if got := c.get(w.token, uint32(w.number)); got != want {
					rt.Fatalf("%s %s, port %d:\n%s\nwant\n%s", w.kind, w.name, w.number, got, want)
				}
			}
		}
		for range 2 {
			drawn := genCluster(t).Draw(rt, "objects")
			for _, key := range rapid.Permutation(slices.Sorted(maps.Keys(drawn))).Draw(rt, "order") {
				c.put(drawn[key])
				var obj object
				if err := json.Unmarshal([]byte(drawn[key]), &obj); err != nil {
					rt.Fatal(err)
				}
				want[key] = obj
				if rapid.IntRange(0, 9).Draw(rt, "check") == 0 {
					check()
				}
			}
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if _, stays := drawn[key]; !stays {
					c.objects.Remove(key)
					delete(want, key)
				}
			}
			check()
		}
		for _, w := range watched {
			w.close()
		}
	})
}

// watchedPort is a port as a stream holds it.
type watchedPort struct {
	*port
	kind, name, token string
	number            int
}

func (c *cluster) watched(kind, name string, number int) watchedPort {
	token := fmt.Sprintf(`{"ns":"ns",%q:%q}`, map[string]string{"Pod": "pod", "ExternalWorkload": "external_workload"}[kind], name)
	p, err := c.server.open(&pb.PortSpec{Workload: token, Port: uint32(number)})
	if err != nil {
		c.t.Fatal(err)
	}
	return watchedPort{p, kind, name, token, number}
}

// newest is what a stream would send next, or end with.
func (w watchedPort) newest() string {
	now := w.current()
	switch {
	case now.workload() == nil:
		return "NotFound unknown server"
	}
	message := &pb.Server{}
	if err := proto.Unmarshal(now.encoded().Bytes(), message); err != nil {
		return err.Error()
	}
	return summary(message)
}
