package app

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// cannedPolicy answers with messages of protobuf JSON, by request.
type cannedPolicy struct {
	inbound.UnimplementedInboundServerPoliciesServer
	outbound.UnimplementedOutboundPoliciesServer
}

func answer[M proto.Message](into M, request string) (M, error) {
	text, ok := cannedPolicies[request]
	if !ok {
		return into, status.Error(codes.NotFound, "no answer for "+request)
	}
	return into, protojson.Unmarshal([]byte(text), into)
}

func (cannedPolicy) GetPort(_ context.Context, spec *inbound.PortSpec) (*inbound.Server, error) {
	return answer(&inbound.Server{}, spec.GetWorkload())
}

func (cannedPolicy) Get(_ context.Context, spec *outbound.TrafficSpec) (*outbound.OutboundPolicy, error) {
	if spec.GetSourceWorkload() != "default:diagnostics" {
		return answer(&outbound.OutboundPolicy{}, spec.GetSourceWorkload())
	}
	if addr := spec.GetAddr(); addr != nil {
		return answer(&outbound.OutboundPolicy{}, addr.GetIp().Addr().String())
	}
	return answer(&outbound.OutboundPolicy{}, spec.GetAuthority())
}

const (
	cannedForward  = `{"metadata": {"resource": {"group": "policy.linkerd.io", "kind": "EgressNetwork", "namespace": "ns", "name": "all", "port": 443}}, "forward": {"addr": {"ip": {"ipv4": 16843009}, "port": 443}, "weight": 1}}`
	cannedBalancer = `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "web", "port": 80}}, "balancer": {"penaltyPeakEwma": {"penalty": "5s"}}}`
	cannedPlain    = `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "web", "port": 80}}, "balancer": {"peakEwma": {}}}`
	cannedMissing  = `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "gone", "port": 81}}}`
)

var cannedPolicies = map[string]string{
	"n:plain": `{"authorizations": [{"authentication": {"unauthenticated": {}}, "networks": [{"net": {"ip": {"ipv4": 0}}}], "labels": {"group": "", "kind": "default", "name": "all-unauthenticated"}}],
		"labels": {"group": "", "kind": "default", "name": "all-unauthenticated"}, "protocol": {"detect": {"timeout": "10s"}}}`,
	"n:web": `{"labels": {"group": "policy.linkerd.io", "kind": "server", "name": "web"}, "protocol": {"http1": {
		"localRateLimit": {"metadata": {"resource": {"kind": "HTTPLocalRateLimitPolicy", "name": "limit"}}, "total": {"requestsPerSecond": 100}, "identity": {"requestsPerSecond": 10},
			"overrides": [{"limit": {"requestsPerSecond": 50}, "clients": {"identities": [{"name": "a.ns"}]}}]},
		"routes": [{"metadata": {"resource": {"kind": "HTTPRoute", "name": "admin"}}, "hosts": [{"suffix": {"reverseLabels": ["org", "example"]}}], "rules": [
			{"matches": [{"path": {"prefix": "/a/"}, "method": {"registered": "POST"}}, {"path": {"regex": ".*"}, "headers": [{"name": "x", "exact": "eQ=="}], "queryParams": [{"name": "q", "exact": "1"}]}],
			 "filters": [{"requestHeaderModifier": {"set": {"headers": [{"name": "a", "value": "Yg=="}]}, "remove": ["c"]}}]}],
			"authorizations": [{"labels": {"kind": "authorizationpolicy", "name": "only-a"}, "networks": [{"net": {"ip": {"ipv4": 167772160}, "prefixLen": 8}, "except": [{"ip": {"ipv4": 167772161}, "prefixLen": 32}]}],
				"authentication": {"meshTLS": {"identities": {"identities": [{"name": "a.ns"}], "suffixes": [{"parts": ["ns2"]}]}}}}]}, {"metadata": {"default": "rest"}, "rules": [{}]}]}}}`,
	"n:closed": `{"labels": {"kind": "server", "name": "tcp"}, "protocol": {"opaque": {}}}`,
	"n:grpc": `{"labels": {"kind": "server", "name": "g"}, "protocol": {"grpc": {"routes": [{"metadata": {"default": "default"}, "rules": [{"matches": [{"rpc": {"service": "s"}}, {"rpc": {}}]}],
		"authorizations": [{"labels": {"kind": "default", "name": "tls"}, "networks": [{"net": {"ip": {"ipv6": {}}}}], "authentication": {"meshTLS": {"unauthenticated": {}}}}]}]}}}`,
	"web.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "web", "port": 80}}, "protocol": {"detect": {
		"opaque": {"routes": [{"metadata": {"default": "opaq"}, "rules": [{"backends": {"firstAvailable": {"backends": [{"backend": ` + cannedBalancer + `}]}}}]}]},
		"http1": {"failureAccrual": {"consecutiveFailures": {"maxFailures": 7, "backoff": {"minBackoff": "1s", "maxBackoff": "60s"}}},
			"routes": [{"metadata": {"resource": {"group": "policy.linkerd.io", "kind": "HTTPRoute", "namespace": "ns", "name": "split"}}, "hosts": [{"exact": "web.example"}], "rules": [
			{"timeouts": {"request": "90s", "idle": "3600s"}, "retry": {"maxRetries": 3, "conditions": {"statusRanges": [{"start": 500, "end": 599}, {"start": 404, "end": 404}]}},
			 "filters": [{"redirect": {"scheme": {"registered": "HTTPS"}, "host": "h", "port": 444, "status": 302, "path": {"full": "/p"}}}, {"responseHeaderModifier": {"add": {"headers": [{"name": "a", "value": "Yg=="}]}}}],
			 "backends": {"randomAvailable": {"backends": [{"weight": 9, "backend": {"backend": ` + cannedBalancer + `}}, {"weight": 1, "backend": {"backend": ` + cannedMissing + `, "filters": [{"failureInjector": {"status": 500, "message": "Service not found gone"}}]}}]}}}]}]}}}}`,
	"g.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "g", "port": 80}}, "protocol": {"grpc": {
		"failureAccrual": {"unified": {"successRateThreshold": 0.8, "decay": "10s", "minRequests": 5, "maxConsecutiveFailures": 7, "backoff": {"minBackoff": "1s", "maxBackoff": "60s", "respectRetryAfterHint": true}}},
		"routes": [{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "namespace": "ns", "name": "none"}}}, {"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "namespace": "ns", "name": "r"}}, "rules": [
			{"retry": {"maxRetries": 1, "timeout": "0.3s", "conditions": {"internal": true}}, "matches": [{"rpc": {"service": "s", "method": "m"}}],
			 "backends": {"firstAvailable": {"backends": [{"backend": ` + cannedMissing + `, "filters": [{"failureInjector": {"code": 500, "message": "no"}}]}]}}}]}]}}}`,
	"h1.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "h1", "port": 80}}, "protocol": {"http1": {
		"failureAccrual": {"consecutiveFailures": {"maxFailures": 1, "backoff": {"minBackoff": "1s", "maxBackoff": "2s"}}},
		"routes": [{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "ns", "name": "none"}}}, {"metadata": {"default": "http"}, "hosts": [{"exact": "a"}, {"exact": "b"}], "rules": [
			{"matches": [{"path": {"exact": "/a"}}, {"queryParams": [{"name": "q", "regex": "v+"}], "headers": [{"name": "h", "regex": "w+"}]}, {}], "timeouts": {"response": "5s"}, "retry": {"maxRetries": 2, "conditions": {}},
			 "filters": [{"redirect": {"status": 301, "path": {"prefix": "/p/"}}}], "backends": {"firstAvailable": {"backends": [{"backend": ` + cannedPlain + `}]}}}]}]}}}`,
	"h2.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "h2", "port": 80}}, "protocol": {"http2": {
		"failureAccrual": {"consecutiveFailures": {"maxFailures": 2, "backoff": {"minBackoff": "1s", "maxBackoff": "2s"}}},
		"routes": [{"metadata": {"default": "http"}, "rules": [{"backends": {"firstAvailable": {"backends": [{"backend": ` + cannedPlain + `}]}}}]}]}}}`,
	"g2.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "g2", "port": 80}}, "protocol": {"grpc": {
		"routes": [{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "namespace": "ns", "name": "r"}}, "rules": [
			{"retry": {"maxRetries": 1, "conditions": {"cancelled": true, "deadineExceeded": true, "resourceExhausted": true, "unavailable": true}}, "timeouts": {"idle": "1s"}, "matches": [{"rpc": {"method": "m"}}, {"rpc": {}, "headers": [{"name": "a", "exact": "Yg=="}, {"name": "c", "exact": "ZA=="}]}],
			 "backends": {"firstAvailable": {"backends": [{"backend": ` + cannedPlain + `}]}}},
			{"retry": {"maxRetries": 3, "conditions": {}}, "backends": {"firstAvailable": {"backends": [{"backend": ` + cannedPlain + `}]}}},
			{"backends": {"firstAvailable": {"backends": [{"backend": ` + cannedPlain + `}]}}}]}]}}}`,
	"tcp.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "tcp", "port": 80}}, "protocol": {"opaque": {
		"routes": [{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "ns", "name": "r"}}, "rules": [{"backends": {"randomAvailable": {"backends": [{"weight": 1, "backend": {"backend": ` + cannedMissing + `, "filters": [{"invalid": {"message": "no such Service"}}]}}]}}}]}]}}}`,
	"tls.ns.svc:80": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "tls", "port": 80}}, "protocol": {"tls": {
		"routes": [{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "TLSRoute", "namespace": "ns", "name": "r"}}, "rules": [{"backends": {"randomAvailable": {"backends": [{"weight": 1, "backend": {"backend": ` + cannedMissing + `, "filters": [{"invalid": {"message": "no such Service"}}]}}]}}}]}]}}}`,
	"1.1.1.1": `{"metadata": {"resource": {"group": "policy.linkerd.io", "kind": "EgressNetwork", "namespace": "ns", "name": "all", "port": 443}}, "protocol": {"tls": {"routes": [
		{"metadata": {"resource": {"group": "gateway.networking.k8s.io", "kind": "TLSRoute", "namespace": "ns", "name": "t"}}, "snis": [{"exact": "a.b"}, {"suffix": {"reverseLabels": ["d", "c"]}}], "rules": [{"backends": {"firstAvailable": {"backends": [{"backend": ` + cannedForward + `}]}}}]},
		{"metadata": {"default": "tls-egress-deny"}, "rules": [{"filters": [{"forbidden": {}}], "backends": {"firstAvailable": {"backends": [{"backend": ` + cannedForward + `}]}}}]}]}}}`,
	"other:client": `{"metadata": {"resource": {"group": "core", "kind": "Service", "namespace": "ns", "name": "web", "port": 1}}, "protocol": {"opaque": {"routes": [
		{"metadata": {"default": "undefined-port"}, "rules": [{"filters": [{"forbidden": {}}], "backends": {"empty": {}}}]}]}}}`,
}

func TestDiagnosticsPolicy(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		stdout string
		fail   string
	}{
		{name: "yaml", args: []string{"pod/plain", "8080", "-n", "n"}, stdout: `authorizations:
- authentication:
    Permit:
      Unauthenticated: {}
  labels:
    group: ""
    kind: default
    name: all-unauthenticated
  networks:
  - net:
      ip:
        Ip:
          Ipv4: 0
labels:
  group: ""
  kind: default
  name: all-unauthenticated
protocol:
  Kind:
    Detect:
      timeout:
        seconds: 10
`},
		{name: "json", args: []string{"po/closed", "1", "-n", "n", "-o", "json"}, stdout: `{
  "protocol": {
    "Kind": {
      "Opaque": {}
    }
  },
  "labels": {
    "kind": "server",
    "name": "tcp"
  }
}
`},
		{name: "default policy", args: []string{"pod/plain", "8080", "-n", "n", "-o", "table"}, stdout: `inbound policy of default all-unauthenticated, detected protocol
ROUTE   MATCHES   AUTHORIZATION                 CLIENTS   NETWORKS    FILTERS
*       all       default all-unauthenticated   any       0.0.0.0/0   -
`},
		{name: "routes and limits", args: []string{"pods/web", "8080", "-n", "n", "-o", "table"}, stdout: `inbound policy of server web, HTTP/1
HTTPLocalRateLimitPolicy limit: 100 requests per second in all, 10 per identity, 50 for a.ns
ROUTE                           MATCHES                     AUTHORIZATION                CLIENTS      NETWORKS                         FILTERS
HTTPRoute admin *.example.org   POST /a/* or ~.* ?q=1 x:y   authorizationpolicy only-a   a.ns,*.ns2   10.0.0.0/8 without 10.0.0.1/32   request headers a=b -c
default rest                    all                         -                            -            -                                -
`},
		{name: "nobody", args: []string{"pod/closed", "1", "-n", "n", "-o", "table"}, stdout: `inbound policy of server tcp, opaque
no client is authorized
`},
		{name: "gRPC", args: []string{"pod/grpc", "1", "-n", "n", "-o", "table"}, stdout: `inbound policy of server g, gRPC
ROUTE     MATCHES      AUTHORIZATION   CLIENTS        NETWORKS   FILTERS
default   s/* or all   default tls     any with TLS   ::/0       -
`},
		{name: "Service", args: []string{"svc/web", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/web:80, detected protocol
an endpoint is out after 7 failures in a row, back after 1s to 1m
PROTOCOL   ROUTE                HOSTS         MATCHES   BACKEND              WEIGHT   SETTINGS
http       HTTPRoute ns/split   web.example   all       Service ns/web:80    9        redirect 302 to https://h:444/p; response headers a+=b; request timeout 1m30s; idle timeout 1h; retry on 500-599,404, limit 3; penalty 5s
http       HTTPRoute ns/split   web.example   all       Service ns/gone:81   1        redirect 302 to https://h:444/p; response headers a+=b; request timeout 1m30s; idle timeout 1h; retry on 500-599,404, limit 3; fails with 500 Service not found gone
opaque     default opaq         -             all       Service ns/web:80    -        penalty 5s
`},
		{name: "gRPC of a Service", args: []string{"service/g", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/g:80, gRPC
an endpoint is out after 7 failures in a row, or when less than 0.8 of at least 5 requests in 10s succeed, back after 1s to 1m or as the server says
PROTOCOL   ROUTE               HOSTS   MATCHES   BACKEND              WEIGHT   SETTINGS
grpc       GRPCRoute ns/none   -       nothing   -                    -        -
grpc       GRPCRoute ns/r      -       s/m       Service ns/gone:81   -        retry on internal, limit 1, 300ms each; fails with 500 no
`},
		{name: "HTTP/1", args: []string{"services/h1", "80", "--namespace", "ns", "--output", "table"}, stdout: `outbound policy for Service ns/h1:80, HTTP/1
an endpoint is out after 1 failures in a row, back after 1s to 2s
PROTOCOL   ROUTE               HOSTS   MATCHES                    BACKEND             WEIGHT   SETTINGS
http1      HTTPRoute ns/none   -       nothing                    -                   -        -
http1      default http        a,b     /a or ?q~v+ h:~w+ or all   Service ns/web:80   -        redirect 301 to */p/*; response timeout 5s; retry, limit 2
`},
		{name: "HTTP/2", args: []string{"svc/h2", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/h2:80, HTTP/2
an endpoint is out after 2 failures in a row, back after 1s to 2s
PROTOCOL   ROUTE          HOSTS   MATCHES   BACKEND             WEIGHT   SETTINGS
http2      default http   -       all       Service ns/web:80   -        -
`},
		{name: "gRPC with all conditions, without conditions, without retries", args: []string{"svc/g2", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/g2:80, gRPC
PROTOCOL   ROUTE            HOSTS   MATCHES          BACKEND             WEIGHT   SETTINGS
grpc       GRPCRoute ns/r   -       */m or a:b c:d   Service ns/web:80   -        idle timeout 1s; retry on cancelled,deadline-exceeded,resource-exhausted,unavailable, limit 1
grpc       GRPCRoute ns/r   -       all              Service ns/web:80   -        retry, limit 3
grpc       GRPCRoute ns/r   -       all              Service ns/web:80   -        -
`},
		{name: "TCP", args: []string{"svc/tcp", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/tcp:80, opaque
PROTOCOL   ROUTE           HOSTS   MATCHES   BACKEND              WEIGHT   SETTINGS
opaque     TCPRoute ns/r   -       all       Service ns/gone:81   1        fails: no such Service
`},
		{name: "TLS", args: []string{"svc/tls", "80", "-n", "ns", "-o", "table"}, stdout: `outbound policy for Service ns/tls:80, TLS
PROTOCOL   ROUTE           HOSTS   MATCHES   BACKEND              WEIGHT   SETTINGS
tls        TLSRoute ns/r   -       all       Service ns/gone:81   1        fails: no such Service
`},
		{name: "no name", args: []string{"svc/", "80"}, fail: `resource "svc/": must be TYPE/NAME`},
		{name: "no slash but a type", args: []string{"svc", "80"}, fail: `resource "svc": must be TYPE/NAME`},
		{name: "address", args: []string{"ip/1.1.1.1", "443", "-o", "table"}, stdout: `outbound policy for EgressNetwork ns/all:443, TLS
PROTOCOL   ROUTE                     HOSTS       MATCHES   BACKEND       WEIGHT   SETTINGS
tls        TLSRoute ns/t             a.b,*.c.d   all       1.1.1.1:443   -        -
tls        default tls-egress-deny   -           all       1.1.1.1:443   -        forbidden
`},
		{name: "another client", args: []string{"svc/web", "1", "--token", "other:client", "-o", "table"}, stdout: `outbound policy for Service ns/web:1, opaque
PROTOCOL   ROUTE                    HOSTS   MATCHES   BACKEND   WEIGHT   SETTINGS
opaque     default undefined-port   -       all       -         -        forbidden
`},
		{name: "error", args: []string{"pod/none", "1"}, fail: "Policy API error: no answer for default:none"},
		{name: "no slash", args: []string{"web", "80"}, fail: `resource "web": must be TYPE/NAME`},
		{name: "other type", args: []string{"deploy/web", "80"}, fail: `resource "deploy/web": the type must be pod, svc or ip`},
		{name: "no address", args: []string{"ip/web", "80"}, fail: `resource "ip/web"`},
		{name: "port", args: []string{"svc/web", "http"}, fail: `port "http": must be a number`},
		{name: "format", args: []string{"svc/web", "80", "-o", "wide"}, fail: `output format "wide": use yaml, json or table`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout bytes.Buffer
			cmd := newDiagnosticsPolicyCommand(dialCanned(t, func(server *grpc.Server) {
				inbound.RegisterInboundServerPoliciesServer(server, cannedPolicy{})
				outbound.RegisterOutboundPoliciesServer(server, cannedPolicy{})
			}))
			runCanned(t, cmd, test.args, &stdout, &stdout, test.fail)
			if diff := cmp.Diff(test.stdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
}

// The command takes exactly two arguments, as the help says.
func TestDiagnosticsPolicyArguments(t *testing.T) {
	cmd := newDiagnosticsPolicyCommand(nil)
	if err := cmd.Args(cmd, []string{"svc/web"}); err == nil {
		t.Error("no error")
	}
}
