package dataplane

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// series are metrics of one name. Other than those of Prometheus' own vectors
// they may differ in which labels they have, as those of linkerd2-proxy do:
// what is known of endpoints becomes labels.
type series[M prometheus.Metric] struct {
	name, help string
	make       func(name, help string, labels prometheus.Labels) M

	mu  sync.Mutex
	all map[string]M
}

// Describe sends nothing, which leaves the labels free.
func (*series[M]) Describe(chan<- *prometheus.Desc) {}

// Collect sends all.
func (s *series[M]) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	for _, m := range all {
		to <- m
	}
}

// with returns the metric that has these labels and no others.
func (s *series[M]) with(labels prometheus.Labels) M {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name + "\x00" + labels[name] + "\x00")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.all[key.String()]
	if !ok {
		m = s.make(s.name, s.help, labels)
		s.all[key.String()] = m
	}
	return m
}

// metrics are the proxy's, under the names and labels of linkerd2-proxy.
type metrics struct {
	requests, responses                           *series[prometheus.Counter]
	latency                                       *series[prometheus.Histogram]
	open, close, read, written                    *series[prometheus.Counter]
	openConnections                               *series[prometheus.Gauge]
	httpAllow, httpDeny, httpNotFound, rateLimits *series[prometheus.Counter]
	tcpAllow, tcpDeny, tcpTerminate, headers      *series[prometheus.Counter]
	inboundErrors, outboundErrors                 *series[prometheus.Counter]
	profileRequests, profileResponses             *series[prometheus.Counter]
	controlRequests, controlResponses             *series[prometheus.Counter]
	http, gRPC                                    *routeMetrics
}

// routeMetrics are those of routes of HTTP or of gRPC.
type routeMetrics struct {
	statuses, backendRequests, backendStatuses *series[prometheus.Counter]
	retries, retrySuccesses, retryOverLimit    *series[prometheus.Counter]
}

func newMetrics(registry *prometheus.Registry) *metrics {
	counter := func(name, help string) *series[prometheus.Counter] {
		return registered(registry, &series[prometheus.Counter]{name: name, help: help, make: func(name, help string, labels prometheus.Labels) prometheus.Counter {
			return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels})
		}})
	}
	gauge := func(name, help string) *series[prometheus.Gauge] {
		return registered(registry, &series[prometheus.Gauge]{name: name, help: help, make: func(name, help string, labels prometheus.Labels) prometheus.Gauge {
			return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		}})
	}
	return &metrics{
		requests:  counter("request_total", "Requests that began."),
		responses: counter("response_total", "Responses that ended."),
		latency: registered(registry, &series[prometheus.Histogram]{
			name: "response_latency_ms", help: "Time from the begin of a request to the end of its response.",
			make: func(name, help string, labels prometheus.Labels) prometheus.Histogram {
				return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: labels, Buckets: proxyshim.LatencyBuckets()})
			},
		}),
		open:             counter("tcp_open_total", "Connections that were opened."),
		close:            counter("tcp_close_total", "Connections that were closed."),
		read:             counter("tcp_read_bytes_total", "Bytes read from peers."),
		written:          counter("tcp_write_bytes_total", "Bytes written to peers."),
		openConnections:  gauge("tcp_open_connections", "Connections that are open."),
		httpAllow:        counter("inbound_http_authz_allow_total", "Requests that were authorized."),
		httpDeny:         counter("inbound_http_authz_deny_total", "Requests that were not authorized."),
		httpNotFound:     counter("inbound_http_route_not_found_total", "Requests that no route was for."),
		rateLimits:       counter("inbound_http_local_ratelimit_total", "Requests that were refused for their rate."),
		tcpAllow:         counter("inbound_tcp_authz_allow_total", "Connections that were authorized."),
		tcpDeny:          counter("inbound_tcp_authz_deny_total", "Connections that were not authorized."),
		tcpTerminate:     counter("inbound_tcp_authz_terminate_total", "Connections that lost their authorization."),
		headers:          counter("inbound_tcp_transport_header_connections_total", "Connections of the direct path."),
		inboundErrors:    counter("inbound_http_errors_total", "Requests that failed in this proxy."),
		outboundErrors:   counter("outbound_http_errors_total", "Requests that failed in this proxy."),
		profileRequests:  counter("route_request_total", "Requests of routes of ServiceProfiles."),
		profileResponses: counter("route_response_total", "Responses of routes of ServiceProfiles."),
		controlRequests:  counter("control_request_total", "Requests to the control plane that began."),
		controlResponses: counter("control_response_total", "Requests to the control plane that ended."),
		http:             newRouteMetrics("http", counter),
		gRPC:             newRouteMetrics("grpc", counter),
	}
}

func newRouteMetrics(kind string, counter func(name, help string) *series[prometheus.Counter]) *routeMetrics {
	prefix := "outbound_" + kind + "_route_"
	return &routeMetrics{
		statuses:        counter(prefix+"request_statuses_total", "Answers of routes."),
		backendRequests: counter(prefix+"backend_requests_total", "Requests to backends of routes."),
		backendStatuses: counter(prefix+"backend_response_statuses_total", "Answers of backends of routes."),
		retries:         counter(prefix+"retry_requests_total", "Requests that were sent again."),
		retrySuccesses:  counter(prefix+"retry_successes_total", "Requests that got an answer when they were sent again."),
		retryOverLimit:  counter(prefix+"retry_limit_exceeded_total", "Requests that failed as often as they may be sent."),
	}
}

// finished counts the end of a response.
func (m *metrics) finished(labels prometheus.Labels, begin time.Time, res *http.Response, err error) {
	outcome := verdict.NewOutcome(res.StatusCode, res.Header, res.Trailer)
	status := prometheus.Labels{"status_code": strconv.Itoa(res.StatusCode)}
	class := prometheus.Labels{"classification": "success", "grpc_status": "", "error": ""}
	if outcome.GRPC != nil {
		class["grpc_status"] = grpcStatus(*outcome.GRPC)
	}
	if outcome.Failed() || err != nil {
		class["classification"] = "failure"
	}
	if err != nil {
		class["error"] = "unexpected"
	}
	m.latency.with(merged(labels, status)).Observe(float64(time.Since(begin)) / float64(time.Millisecond))
	m.responses.with(merged(labels, status, class)).Inc()
}

// control counts the calls of a client of the control plane.
func (m *metrics) control(addr, id string) grpc.DialOption {
	tls := prometheus.Labels{"tls": "no_identity", "no_tls_reason": "loopback"}
	if id != "" {
		tls = serverLabels(id)
	}
	labels := merged(prometheus.Labels{"addr": addr}, tls)
	return grpc.WithStatsHandler(controlStats{m, labels})
}

// controlStats hears of calls from grpc-go.
type controlStats struct {
	metrics *metrics
	labels  prometheus.Labels
}

// HandleRPC counts the begin and the end of calls.
func (c controlStats) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.Begin:
		c.metrics.controlRequests.with(c.labels).Inc()
	case *stats.End:
		code := status.Code(s.Error)
		class := prometheus.Labels{"status_code": "200", "classification": "success", "grpc_status": grpcStatus(code), "error": ""}
		if (verdict.Outcome{GRPC: &code}).Failed() {
			class["classification"] = "failure"
		}
		c.metrics.controlResponses.with(merged(c.labels, class)).Inc()
	}
}

// TagRPC, TagConn and HandleConn have nothing to do.
func (controlStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (controlStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (controlStats) HandleConn(context.Context, stats.ConnStats)                       {}

// statusLabels are those of an answer of a route; nil is none.
func statusLabels(res *http.Response, err error) prometheus.Labels {
	labels := prometheus.Labels{"http_status": "", "error": ""}
	if err != nil {
		labels["error"] = "unexpected"
		return labels
	}
	labels["http_status"] = strconv.Itoa(res.StatusCode)
	if outcome := verdict.NewOutcome(res.StatusCode, res.Header, res.Trailer); outcome.GRPC != nil {
		delete(labels, "http_status")
		labels["grpc_status"] = outcome.GRPC.String()
	}
	return labels
}

func registered[M prometheus.Metric](registry *prometheus.Registry, s *series[M]) *series[M] {
	s.all = map[string]M{}
	registry.MustRegister(s)
	return s
}

// merged is a set of labels with all of the others'.
func merged(sets ...prometheus.Labels) prometheus.Labels {
	all := prometheus.Labels{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}
