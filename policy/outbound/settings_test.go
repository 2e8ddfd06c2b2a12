package outbound

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

const (
	retry5xx      = " retry max_retries:1 conditions:{status_ranges:[{start:500 end:599}]}"
	retryInternal = " retry max_retries:1 conditions:{internal:true}"
)

// Retries and timeouts of parents and routes, P194-P204 and B64. want is what
// is said of the route's only rule.
func TestRetriesAndTimeouts(t *testing.T) {
	for _, row := range []struct {
		name string
		only []variant
		// parent and route are annotations, rule is in the rule.
		parent, route, rule, want string
	}{
		{"P194", httpVariants, "", "retry.linkerd.io/http: 5xx, timeout.linkerd.io/response: 10s", "", "timeouts response:10s" + retry5xx},
		{"P195", []variant{grpc_}, "", "retry.linkerd.io/grpc: internal, timeout.linkerd.io/response: 10s", "", "timeouts response:10s" + retryInternal},
		{"P196 inherited retry, own timeouts", httpVariants, "retry.linkerd.io/http: 5xx, timeout.linkerd.io/response: 10s", "timeout.linkerd.io/request: 5s", "", "timeouts request:5s" + retry5xx},
		{"P197", []variant{grpc_}, "retry.linkerd.io/grpc: internal, timeout.linkerd.io/response: 10s", "timeout.linkerd.io/request: 5s", "", "timeouts request:5s" + retryInternal},
		{"inherited timeouts", l7Variants, "timeout.linkerd.io/response: 10s, timeout.linkerd.io/idle: 1m, timeout.linkerd.io/request: 1h", "", "", "timeouts response:10s request:1h0m0s idle:1m0s"},
		{"B64 own retry replaces", httpVariants, "retry.linkerd.io/http: 5xx, retry.linkerd.io/limit: '9', retry.linkerd.io/timeout: 1s", "retry.linkerd.io/http: '404'", "", "retry max_retries:1 conditions:{status_ranges:[{start:404 end:404}]}"},
		{"B64 own limit replaces all", l7Variants, "retry.linkerd.io/http: 5xx, retry.linkerd.io/grpc: internal, retry.linkerd.io/timeout: 1s", "retry.linkerd.io/limit: '3'", "", "retry max_retries:3 conditions:{}"},
		{"P198 P199 B64 timeouts of the rule", httpVariants, "", "", "timeouts: {request: 5s}", "timeouts request:5s"},
		{"P200 compound", []variant{gwHTTP}, "", "", "timeouts: {request: 1h30m}", ""},
		{"compound", []variant{polHTTP}, "", "", "timeouts: {request: 1h30m}", "timeouts request:1h30m0s"},
		{"fraction and sign", []variant{polHTTP}, "", "", "timeouts: {request: -1.5s}", "timeouts request:1.5s"},
		{"empty", []variant{polHTTP}, "", "", "timeouts: {request: ''}", ""},
		{"P201 B64 the annotation wins", httpVariants, "", "timeout.linkerd.io/request: 10s", "timeouts: {request: 5s}", "timeouts request:10s"},
		{"the rule adds to annotations", httpVariants, "", "timeout.linkerd.io/idle: 10s", "timeouts: {request: 5s}", "timeouts request:5s idle:10s"},
		{"the rule replaces the parent's", httpVariants, "timeout.linkerd.io/idle: 10s", "", "timeouts: {request: 5s}", "timeouts request:5s"},
		{"P202 zero is none", httpVariants, "timeout.linkerd.io/response: 7s", "", "timeouts: {request: 0s}", "timeouts response:7s"},
		{"backendRequest is ignored", httpVariants, "", "", "timeouts: {backendRequest: 5s}", ""},
		{"P203 limit zero", l7Variants, "", "retry.linkerd.io/limit: '0'", "", ""},
		{"P204 limit alone", l7Variants, "", "retry.linkerd.io/limit: '3'", "", "retry max_retries:3 conditions:{}"},
		{"timeout alone", l7Variants, "", "retry.linkerd.io/timeout: 250ms", "", "retry max_retries:1 conditions:{} timeout:250ms"},
		{"timeout zero", l7Variants, "", "retry.linkerd.io/timeout: 0s", "", ""},
		{"all of it", httpVariants, "", "retry.linkerd.io/http: '5XX,Gateway-Error', retry.linkerd.io/limit: '2', retry.linkerd.io/timeout: 1m", "", "retry max_retries:2 conditions:{status_ranges:[{start:500 end:599} {start:502 end:504}]} timeout:1m0s"},
		{"all of it", []variant{grpc_}, "", "retry.linkerd.io/grpc: 'Cancelled,deadline-exceeded,internal,resource-exhausted,unavailable'", "", "retry max_retries:1 conditions:{cancelled:true deadine_exceeded:true resource_exhausted:true internal:true unavailable:true}"},
		{"the other protocol's conditions", []variant{grpc_}, "", "retry.linkerd.io/http: nonsense", "", ""},
		{"the other protocol's conditions", httpVariants, "", "retry.linkerd.io/grpc: nonsense", "", ""},
		{"P206 blank drops HTTP retries of a parent", httpVariants, "retry.linkerd.io/http: '5xx, 404', timeout.linkerd.io/request: 3s", "", "", "timeouts request:3s"},
		{"P207 a bad timeout drops all of a parent", l7Variants, "timeout.linkerd.io/idle: 10x, timeout.linkerd.io/request: 3s", "", "", ""},
		{"a bad limit drops both retries of a parent", l7Variants, "retry.linkerd.io/limit: x, retry.linkerd.io/http: 5xx, retry.linkerd.io/grpc: internal", "", "", ""},
		{"the largest limit", l7Variants, "", "retry.linkerd.io/limit: '65535'", "", "retry max_retries:65535 conditions:{}"},
		{"a limit out of range drops both retries of a parent", l7Variants, "retry.linkerd.io/limit: '65536', retry.linkerd.io/http: 5xx, retry.linkerd.io/grpc: internal", "", "", ""},
		{"the first and the last status", httpVariants, "", "retry.linkerd.io/http: '100,599,100-599'", "", "retry max_retries:1 conditions:{status_ranges:[{start:100 end:100} {start:599 end:599} {start:100 end:599}]}"},
		{"a status out of range", httpVariants, "retry.linkerd.io/http: '5xx,600'", "", "", ""},
		{"a range that ends before it starts", httpVariants, "retry.linkerd.io/http: '500-499'", "", "", ""},
		{"a comma at the end", l7Variants, "retry.linkerd.io/http: '5xx,', retry.linkerd.io/grpc: 'internal,'", "", "", ""},
		{"bad gRPC conditions drop that", []variant{grpc_}, "retry.linkerd.io/http: 5xx, retry.linkerd.io/grpc: x", "", "", ""},
		{"bad gRPC conditions drop only that", httpVariants, "retry.linkerd.io/http: 5xx, retry.linkerd.io/grpc: x", "", "", strings.TrimSpace(retry5xx)},
	} {
		for _, parent := range bothParents {
			for _, v := range row.only {
				rulebook.Run(t, row.name+"/"+parent.name+"/"+v.name, func(t *testing.T) {
					bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
						c.apply(parent.doc(row.parent), v.route(routeDoc{parents: []string{parent.ref}, annotations: row.route, rules: "[{" + row.rule + "}]"}))
						protocol := strings.Fields(v.line(""))[0]
						rule := strings.Split(routesOf(protocol, c.get("ns", parent.address)), "\n")[1]
						got, _, _ := strings.Cut(rule, "-> ")
						wantText(t, row.want, strings.TrimSpace(got))
					})
				})
			}
		}
	}
}

// What a parent says applies to its default routes as well.
func TestDefaultRoutesHaveParentSettings(t *testing.T) {
	config := defaultConfig()
	config.AllowL5dRequestHeaders = true
	scenario(t, "P205 P208", config, func(t *testing.T, c *cluster) {
		annotations := []string{"retry.linkerd.io/http: '5xx,gateway-error,404,200-299'", "retry.linkerd.io/grpc: internal", "timeout.linkerd.io/request: 3s"}
		const (
			timeouts = " timeouts request:3s"
			retry    = " retry max_retries:1 conditions:{status_ranges:[{start:500 end:599} {start:502 end:504} {start:404 end:404} {start:200 end:299}]}"
			own      = "EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191"
		)
		c.apply(mySvc(annotations...), egress("my-egress", "Allow", "", annotations...))
		wantText(t, "http http\n  (path:{prefix:/})"+timeouts+retry+" -> first Service ns/my-svc:4191", routesOf("http", c.get("ns", "10.96.0.10:4191")))
		c.apply(polHTTP.route(routeDoc{parents: []string{toEgr, toSvc}}))
		wantText(t, "http policy.linkerd.io/HTTPRoute ns/route\n "+timeouts+retry+" l5d -> first "+own+
			"\nhttp http-egress-allow\n  (path:{prefix:/})"+timeouts+retry+" -> first "+own, routesOf("http", c.get("ns", "1.1.1.1:4191")))
		wantText(t, "http policy.linkerd.io/HTTPRoute ns/route\n "+timeouts+retry+" l5d -> first Service ns/my-svc:4191", routesOf("http", c.get("ns", "10.96.0.10:4191")))
		c.apply(grpc_.route(routeDoc{parents: []string{toEgr}}))
		wantText(t, "grpc gateway.networking.k8s.io/GRPCRoute ns/route\n "+timeouts+retryInternal+" l5d -> first "+own+
			"\ngrpc grpc-egress-allow\n "+timeouts+retryInternal+" -> first "+own, routesOf("grpc", c.get("ns", "1.1.1.1:4191")))
	})
}

// A bad value drops the group that it belongs to, and no other (policy-outbound 6.1, 7).
func TestGroupsOfAnnotations(t *testing.T) {
	good := map[string]string{
		settings.TimeoutRequestAnnotation: "3s", settings.RetryHTTPAnnotation: "5xx", settings.RetryGRPCAnnotation: "internal",
		settings.FailureAccrualAnnotation: "unified", settings.HonorRetryAfterAnnotation: "'true'", settings.PenalizeFailuresAnnotation: "'true'",
	}
	const (
		hint    = " respect_retry_after_hint:true"
		accrual = " unified:{success_rate_threshold:0.8 decay:10s min_requests:5 max_consecutive_failures:7 backoff:{min_backoff:1s max_backoff:1m0s jitter_ratio:0.5" + hint + "}}"
		limit   = " timeouts request:3s"
		http    = "Service ns/my-svc:4191 detect" + accrual + "\nopaque opaq\n  -> first Service ns/my-svc:4191" + penalty +
			"\nhttp http\n  (path:{prefix:/})" + limit + retry5xx + " -> first Service ns/my-svc:4191" + penalty
		grpc = "Service ns/my-svc:4191 grpc" + accrual + "\ngrpc gateway.networking.k8s.io/GRPCRoute ns/route\n " + limit + retryInternal + " -> first Service ns/my-svc:4191" + penalty
	)
	for _, row := range []struct {
		annotation, value string
		gone              []string
	}{
		{"none", "x", nil},
		{settings.TimeoutResponseAnnotation, "1x", []string{limit}},
		{settings.RetryLimitAnnotation, "x", []string{retry5xx, retryInternal}},
		{settings.RetryTimeoutAnnotation, "x", []string{retry5xx, retryInternal}},
		{settings.RetryHTTPAnnotation, "x", []string{retry5xx}},
		{settings.RetryGRPCAnnotation, "x", []string{retryInternal}},
		{settings.FailureAccrualAnnotation, "x", []string{accrual}},
		{settings.MaxFailuresAnnotation, "x", []string{accrual}},
		{settings.MinPenaltyAnnotation, "x", []string{accrual}},
		{settings.MaxPenaltyAnnotation, "x", []string{accrual}},
		{settings.JitterRatioAnnotation, "x", []string{accrual}},
		{settings.ThresholdAnnotation, "x", []string{accrual}},
		{settings.WindowAnnotation, "x", []string{accrual}},
		{settings.MinRequestsAnnotation, "x", []string{accrual}},
		{settings.HonorRetryAfterAnnotation, "x", []string{hint}},
		{settings.PenalizeFailuresAnnotation, "x", []string{penalty}},
		{settings.PenaltyAnnotation, "x", []string{penalty}},
		{settings.MaxRetryAfterAnnotation, "x", []string{penalty}},
		{linkerd.OpaquePortsAnnotation, "x", nil},
	} {
		t.Run(row.annotation, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				values := maps.Clone(good)
				values[row.annotation] = row.value
				var annotations []string
				for name, value := range values {
					annotations = append(annotations, name+": "+value)
				}
				wantHTTP, wantGRPC := http, grpc
				for _, part := range row.gone {
					wantHTTP, wantGRPC = strings.ReplaceAll(wantHTTP, part, ""), strings.ReplaceAll(wantGRPC, part, "")
				}
				c.apply(mySvc(annotations...))
				wantText(t, wantHTTP, c.get("ns", "10.96.0.10:4191"))
				c.apply(grpc_.route(routeDoc{}))
				wantText(t, wantGRPC, c.get("ns", "10.96.0.10:4191"))
			})
		})
	}
}

// What ports declare.
func TestAppProtocol(t *testing.T) {
	for _, row := range []struct {
		name, appProtocol, annotations string
		routes                         []variant
		// want is the protocol with the kind of its first route, "" for a default one.
		want, route string
	}{
		{"P209 P300", "linkerd.io/opaque", "", nil, "opaque", ""},
		{"linkerd.io/tcp", "linkerd.io/tcp", "", nil, "opaque", ""},
		{"P210 unknown", "XMPP", "", nil, "opaque", ""},
		{"grpc is unknown", "grpc", "", []variant{grpc_}, "opaque", ""},
		{"https", "https", "", []variant{polHTTP, tls_}, "opaque", ""},
		{"empty", "''", "", nil, "opaque", ""},
		{"P211 B70", "linkerd.io/opaque", "", []variant{tcp_}, "opaque", "TCPRoute"},
		{"B70 unknown counts as opaque", "XMPP", "", []variant{tcp_, polHTTP}, "opaque", "TCPRoute"},
		{"P212 P300", "http", "", nil, "http1", ""},
		{"P213", "http", "", []variant{gwHTTP}, "http1", "HTTPRoute"},
		{"http ignores other routes", "http", "", []variant{grpc_, tls_, tcp_}, "http1", ""},
		{"P214", "kubernetes.io/h2c", "", nil, "http2", ""},
		{"P215", "kubernetes.io/h2c", "", []variant{polHTTP}, "http2", "HTTPRoute"},
		{"P216 B70", "kubernetes.io/h2c", "", []variant{polHTTP, grpc_}, "grpc", "GRPCRoute"},
		{"P217", "http", "config.linkerd.io/opaque-ports: '4191'", nil, "http1", ""},
		{"P218", "HTTP", "", nil, "http1", ""},
		{"P218", "Kubernetes.IO/H2C", "", nil, "http2", ""},
		{"P170", "", "config.linkerd.io/opaque-ports: '4191'", nil, "opaque", ""},
		{"P170 range", "", "config.linkerd.io/opaque-ports: 1-9, 4000 - 5000", nil, "opaque", ""},
		{"P170 TCPRoute", "", "config.linkerd.io/opaque-ports: '4191'", []variant{tcp_, polHTTP}, "opaque", "TCPRoute"},
		{"a bad list is empty", "", "config.linkerd.io/opaque-ports: '4191,x'", nil, "detect", ""},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				port := "{port: 4191}"
				if row.appProtocol != "" {
					port = "{port: 4191, appProtocol: " + row.appProtocol + "}"
				}
				annotations := ""
				if row.annotations != "" {
					name, value, _ := strings.Cut(row.annotations, ": ")
					annotations = fmt.Sprintf("%s: '%s'", name, strings.Trim(value, "'"))
				}
				c.apply(serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: ["+port+"]", annotations))
				for _, v := range row.routes {
					c.apply(v.route(routeDoc{}))
				}
				got := c.get("ns", "10.96.0.10:4191")
				wantText(t, "Service ns/my-svc:4191 "+row.want, head(got))
				first := strings.Split(got, "\n")[1]
				if has := strings.Contains(first, "Route "); has != (row.route != "") || has && !strings.Contains(first, row.route+" ") {
					t.Errorf("first route: %s", first)
				}
			})
		})
	}
}

// TCP and UDP can share a port's number (3.1).
func TestAppProtocolOfSharedNumber(t *testing.T) {
	for _, row := range []struct{ name, ports, want string }{
		{"UDP declares nothing", "{port: 53, protocol: TCP, appProtocol: http}, {port: 53, protocol: UDP}", "http1"},
		{"TCP declares nothing", "{port: 53, protocol: UDP}, {port: 53, protocol: TCP, appProtocol: http}", "http1"},
		{"the last of two", "{port: 53, protocol: TCP, appProtocol: http}, {port: 53, protocol: UDP, appProtocol: kubernetes.io/h2c}", "http2"},
		{"neither", "{port: 53, protocol: TCP}, {port: 53, protocol: UDP}", "detect"},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: ["+row.ports+"]"))
				wantText(t, "Service ns/my-svc:53 "+row.want, head(c.get("ns", "10.96.0.10:53")))
			})
		})
	}
}

// Opaque by the default list, by annotation, and not at all.
func TestOpaquePorts(t *testing.T) {
	scenario(t, "P170 P171 P219", defaultConfig(), func(t *testing.T, c *cluster) {
		mysql := func(annotations ...string) string {
			return serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: [{port: 3306}, {port: 25, appProtocol: http}]", annotations...)
		}
		c.apply(mysql(), egress("my-egress", "Allow", ""))
		wantText(t, "Service ns/my-svc:25 http1", head(c.get("ns", "10.96.0.10:25")))
		wantText(t, "EgressNetwork ns/my-egress:3306 opaque", head(c.get("ns", "1.1.1.1:3306")))
		s := c.watch("ns", "10.96.0.10:3306")
		wantText(t, "Service ns/my-svc:3306 opaque\nopaque opaq\n  -> first Service ns/my-svc:3306", summary(s.Take()[0]))
		c.apply(mysql("config.linkerd.io/opaque-ports: ''"), egress("my-egress", "Allow", "", "config.linkerd.io/opaque-ports: '4191'"))
		wantText(t, "Service ns/my-svc:3306 detect", head(summary(s.Take()[0])))
		wantText(t, "EgressNetwork ns/my-egress:3306 detect", head(c.get("ns", "1.1.1.1:3306")))
		wantText(t, "EgressNetwork ns/my-egress:4191 opaque\nopaque tcp-egress-allow\n  -> first EgressNetwork ns/my-egress:4191 at 1.1.1.1:4191", c.get("ns", "1.1.1.1:4191"))
		c.apply(mysql("config.linkerd.io/opaque-ports: '3306'"))
		wantText(t, "Service ns/my-svc:3306 opaque", head(summary(s.Take()[0])))
		c.apply(mysql("config.linkerd.io/opaque-ports: '3307'")) // P171
		wantText(t, "Service ns/my-svc:3306 detect", head(summary(s.Take()[0])))
	})
}

const (
	balancer = "balancer.linkerd.io/failure-accrual"
	alpha    = "balancer.alpha.linkerd.io/"
	defaults = "backoff:{min_backoff:1s max_backoff:1m0s jitter_ratio:0.5}"
	penalty  = " penalty:5s max_retry_after:5m0s"
)

func consecutive(settings string) string { return " consecutive_failures:{" + settings + "}" }

// Failure accrual. want is what follows the protocol.
func TestFailureAccrual(t *testing.T) {
	const (
		maxFailures = balancer + "-consecutive-max-failures: "
		maxPenalty  = balancer + "-consecutive-max-penalty: "
		minPenalty  = balancer + "-consecutive-min-penalty: "
		jitter      = balancer + "-consecutive-jitter-ratio: "
		threshold   = alpha + "failure-accrual-success-rate-threshold: "
		window      = alpha + "failure-accrual-success-rate-window: "
		minRequests = alpha + "failure-accrual-success-rate-min-requests: "
		honor       = alpha + "failure-accrual-honor-retry-after: "
		conseq      = balancer + ": consecutive"
		uni         = balancer + ": unified"
	)
	all := []string{maxFailures + "'8'", minPenalty + "10s", maxPenalty + "10m", jitter + "'1.0'"}
	unified := func(threshold, decay, rest string) string {
		return fmt.Sprintf(" unified:{success_rate_threshold:%s decay:%s %s max_consecutive_failures:7 %s}", threshold, decay, rest, defaults)
	}
	for _, row := range []struct {
		name        string
		annotations []string
		want        string
	}{
		{"P220", append([]string{conseq}, all...), consecutive("max_failures:8 backoff:{min_backoff:10s max_backoff:10m0s jitter_ratio:1}")},
		{"P221", []string{conseq}, consecutive("max_failures:7 " + defaults)},
		{"P222", []string{conseq, maxFailures + "'8'"}, consecutive("max_failures:8 " + defaults)},
		{"P222 P298 trimmed", []string{conseq, maxFailures + "' 5 '"}, consecutive("max_failures:5 " + defaults)},
		{"zero failures", []string{conseq, maxFailures + "'0'"}, consecutive(defaults)},
		{"P223", []string{conseq, jitter + "' 1.0 '"}, consecutive("max_failures:7 backoff:{min_backoff:1s max_backoff:1m0s jitter_ratio:1}")},
		{"P224 no mode", []string{maxFailures + "'8'"}, ""},
		{"P225", append([]string{uni, threshold + "'0.9'", window + "30s", minRequests + "'100'"}, all...),
			" unified:{success_rate_threshold:0.9 decay:30s min_requests:100 max_consecutive_failures:8 backoff:{min_backoff:10s max_backoff:10m0s jitter_ratio:1}}"},
		{"P226", []string{uni}, unified("0.8", "10s", "min_requests:5")},
		{"P227", []string{uni, honor + "'true'"}, strings.Replace(unified("0.8", "10s", "min_requests:5"), "0.5}", "0.5 respect_retry_after_hint:true}", 1)},
		{"bad honor-retry-after", []string{uni, honor + "perhaps"}, unified("0.8", "10s", "min_requests:5")},
		{"P228", []string{conseq, threshold + "nonsense"}, consecutive("max_failures:7 " + defaults)},
		{"P231", []string{conseq, honor + "'true'"}, consecutive("max_failures:7 " + defaults)},
		{"P234", nil, ""},
		{"P241 threshold below", []string{uni, threshold + "'-0.1'"}, ""},
		{"P241 threshold above", []string{uni, threshold + "'1.5'"}, ""},
		{"threshold NaN", []string{uni, threshold + "nan"}, ""},
		{"P241 window 0", []string{uni, window + "0s"}, ""},
		{"P241 window 9ms", []string{uni, window + "9ms"}, ""},
		{"P241 min-requests", []string{uni, minRequests + "'1000001'"}, ""},
		{"P242 window 10ms", []string{uni, window + "10ms"}, unified("0.8", "10ms", "min_requests:5")},
		{"P242 min-requests", []string{uni, minRequests + "'1000000'"}, unified("0.8", "10s", "min_requests:1000000")},
		{"P242 min-requests 0", []string{uni, minRequests + "'0'"}, " unified:{success_rate_threshold:0.8 decay:10s max_consecutive_failures:7 " + defaults + "}"},
		{"P242 threshold 0", []string{uni, threshold + "'0.0'"}, " unified:{decay:10s min_requests:5 max_consecutive_failures:7 " + defaults + "}"},
		{"P243 window", []string{uni, threshold + "'0'", window + "5ms"}, " unified:{decay:5ms min_requests:5 max_consecutive_failures:7 " + defaults + "}"},
		{"P243 min-requests", []string{uni, threshold + "'0'", minRequests + "'2000000'"}, " unified:{decay:10s min_requests:2000000 max_consecutive_failures:7 " + defaults + "}"},
		{"P244 true", []string{balancer + ": 'true'"}, ""},
		{"P244 false", []string{balancer + ": 'false'"}, ""},
		{"P244 case", []string{balancer + ": Consecutive"}, ""},
		{"mode is not trimmed", []string{balancer + ": ' consecutive'"}, ""},
		{"P245 penalties", []string{conseq, minPenalty + "10s", maxPenalty + "5s"}, ""},
		{"P245 no penalty", []string{conseq, maxPenalty + "0s", minPenalty + "0s"}, ""},
		{"P245 jitter -1", []string{conseq, jitter + "'-1'"}, ""},
		{"P245 jitter 101", []string{conseq, jitter + "'101'"}, ""},
		{"P245 jitter NaN", []string{conseq, jitter + "NaN"}, ""},
		{"jitter 100", []string{conseq, jitter + "'1e2'"}, consecutive("max_failures:7 backoff:{min_backoff:1s max_backoff:1m0s jitter_ratio:100}")},
		{"jitter 0", []string{conseq, jitter + "'0'"}, consecutive("max_failures:7 backoff:{min_backoff:1s max_backoff:1m0s}")},
		{"jitter in hexadecimal", []string{conseq, jitter + "'0x1p-1'"}, ""},
		{"min-penalty as long as max-penalty", []string{conseq, minPenalty + "1m"}, consecutive("max_failures:7 backoff:{min_backoff:1m0s max_backoff:1m0s jitter_ratio:0.5}")},
		{"threshold 1", []string{uni, threshold + "'1'"}, unified("1", "10s", "min_requests:5")},
		{"threshold too small to be told from 0", []string{uni, threshold + "1e-400", window + "5ms"}, " unified:{decay:5ms min_requests:5 max_consecutive_failures:7 " + defaults + "}"},
		{"no window even with threshold 0", []string{uni, threshold + "'0'", window + "0s"}, ""},
		{"min-requests out of range even with threshold 0", []string{uni, threshold + "'0'", minRequests + "'4294967296'"}, ""},
		{"failures out of range", []string{conseq, maxFailures + "'4294967296'"}, ""},
	} {
		for _, parent := range bothParents {
			rulebook.Run(t, row.name+"/"+parent.name, func(t *testing.T) {
				bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
					c.apply(parent.doc(row.annotations...))
					wantText(t, parent.resource+" detect"+row.want, head(c.get("ns", parent.address)))
					c.apply(grpc_.route(routeDoc{parents: []string{parent.ref}}))
					wantText(t, parent.resource+" grpc"+row.want, head(c.get("ns", parent.address)))
				})
			})
		}
	}
}

// Accrual is also that of ports that declare their protocol; annotations of routes say nothing.
func TestFailureAccrualOfPorts(t *testing.T) {
	bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(serviceSpec("my-svc", "clusterIPs: [10.96.0.10], ports: [{port: 1, appProtocol: http}, {port: 2, appProtocol: kubernetes.io/h2c}, {port: 3, appProtocol: x}]", balancer+": consecutive"))
		want := consecutive("max_failures:7 " + defaults)
		wantText(t, "Service ns/my-svc:1 http1"+want, head(c.get("ns", "10.96.0.10:1")))
		wantText(t, "Service ns/my-svc:2 http2"+want, head(c.get("ns", "10.96.0.10:2")))
		wantText(t, "Service ns/my-svc:3 opaque", head(c.get("ns", "10.96.0.10:3")))
		c.apply(mySvc(), polHTTP.route(routeDoc{annotations: balancer + ": consecutive"}))
		wantText(t, "Service ns/my-svc:4191 detect", head(c.get("ns", "10.96.0.10:4191")))
	})
}

// The load of failing endpoints.
func TestPenalty(t *testing.T) {
	on := alpha + "penalize-failures: 'true'"
	scenario(t, "P229 P230 P232 P233 P234 P235 P236", defaultConfig(), func(t *testing.T, c *cluster) {
		c.apply(mySvc())
		s := c.watch("ns", "10.96.0.10:4191")
		s.want(defaultPolicy) // P234
		c.apply(mySvc(on))
		penalised := strings.ReplaceAll(defaultPolicy, "first Service ns/my-svc:4191", "first Service ns/my-svc:4191"+penalty)
		s.want(penalised) // P229, P236
		c.apply(mySvc(on, balancer+": consecutive", alpha+"failure-accrual-honor-retry-after: 'true'"))
		s.want(strings.Replace(penalised, "detect", "detect"+consecutive("max_failures:7 "+defaults), 1)) // P232
		c.apply(mySvc(alpha + "penalize-failures: invalid"))
		s.want(defaultPolicy) // P233

		c.apply(mySvc(on, "config.linkerd.io/opaque-ports: '4191'"))
		s.want("Service ns/my-svc:4191 opaque\nopaque opaq\n  -> first Service ns/my-svc:4191") // P230
		c.apply(egress("my-egress", "Allow", "", on, alpha+"failure-accrual-honor-retry-after: 'true'"))
		wantText(t, egressPolicy, c.get("ns", "1.1.1.1:4191")) // P235
		c.apply(backendSvc)
		for _, v := range l7Variants {
			c.apply(v.route(routeDoc{parents: []string{toEgr}, rules: "[{backendRefs: [{name: backend, port: 1}]}]"}))
			protocol := strings.Fields(v.line(""))[0]
			wantText(t, "-> random 1 x Service ns/backend:1", strings.TrimSpace(strings.Split(routesOf(protocol, c.get("ns", "1.1.1.1:4191")), "\n")[1]))
		}
	})
	// The parent decides for backends of HTTP and gRPC routes, and
	// for the default backend of all; other explicit backends have none.
	for _, v := range allVariants {
		rulebook.Run(t, "P237 P238 "+v.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				protocol := strings.Fields(v.line(""))[0]
				text := func() string {
					_, backends, _ := strings.Cut(routesOf(protocol, c.get("ns", "10.96.0.10:4191")), "-> ")
					return backends
				}
				c.apply(mySvc(on), backendSvc, v.route(routeDoc{rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				want := "random 1 x Service ns/backend:8888"
				if contains(l7Variants, v) {
					want += penalty
				}
				wantText(t, want, text())
				c.apply(v.route(routeDoc{}))
				wantText(t, "first Service ns/my-svc:4191"+penalty, text())
				c.apply(mySvc(), serviceSpec("backend", "ports: [{port: 80}]", on), v.route(routeDoc{rules: "[{backendRefs: [{name: backend, port: 8888}]}]"}))
				wantText(t, "random 1 x Service ns/backend:8888", text())
			})
		})
	}
	for _, row := range []struct {
		name, annotations, want string
	}{
		{"P240 penalty", on + ", " + alpha + "load-biaser-penalty: 2s", " penalty:2s max_retry_after:5m0s"},
		{"P240 max retry after", on + ", " + alpha + "load-biaser-max-retry-after: 60s", " penalty:5s max_retry_after:1m0s"},
		{"P240 fraction", on + ", " + alpha + "load-biaser-penalty: 1.5s", ""},
		{"P240 too long", on + ", " + alpha + "load-biaser-penalty: 50d", ""},
		{"longest", on + ", " + alpha + "load-biaser-penalty: 4294967295ms", " penalty:1193h2m47.295s max_retry_after:5m0s"},
		{"one too long", on + ", " + alpha + "load-biaser-penalty: 4294967296ms", ""},
		{"bad settings of what is off", alpha + "penalize-failures: 'false', " + alpha + "load-biaser-penalty: x", ""},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			bubble(t, defaultConfig(), func(t *testing.T, c *cluster) {
				c.apply(mySvc(row.annotations))
				_, got, _ := strings.Cut(routesOf("opaque", c.get("ns", "10.96.0.10:4191")), "my-svc:4191")
				wantText(t, row.want, strings.TrimSpace(strings.Split(got, "\n")[0]))
			})
		})
	}
}

// Whatever annotations say, proxies can use what comes of it.
func FuzzAccrual(f *testing.F) {
	f.Add("unified", "8", "10s", "1m", "0.5", "0.8", "10ms", "5", "true", "5s")
	f.Add("consecutive", "+1", "0s", "0", "inf", "nan", "", "1000001", "T", "-1s")
	f.Fuzz(func(t *testing.T, mode, maxFailures, minPenalty, maxPenalty, jitter, threshold, window, minRequests, flag, penalty string) {
		values := map[string]string{
			settings.FailureAccrualAnnotation: mode, settings.MaxFailuresAnnotation: maxFailures, settings.MinPenaltyAnnotation: minPenalty, settings.MaxPenaltyAnnotation: maxPenalty,
			settings.JitterRatioAnnotation: jitter, settings.ThresholdAnnotation: threshold, settings.WindowAnnotation: window, settings.MinRequestsAnnotation: minRequests,
			settings.HonorRetryAfterAnnotation: flag, settings.PenalizeFailuresAnnotation: flag, settings.PenaltyAnnotation: penalty, settings.MaxRetryAfterAnnotation: window,
		}
		s := &summarizer{}
		accrual, err := settings.ParseFailureAccrual(values)
		if s.accrual(accrual); len(s.problems) > 0 || err != nil && accrual != nil {
			t.Errorf("%v: %v, %v, %v", values, accrual, err, s.problems)
		}
		if load, err := settings.ParsePenalty(values); err != nil && load != nil {
			t.Errorf("%v: %v, %v", values, load, err)
		}
	})
}
