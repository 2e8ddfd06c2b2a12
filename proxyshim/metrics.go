package proxyshim

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
)

// LatencyBuckets are the proxy's, in milliseconds (proxy section 9).
func LatencyBuckets() []float64 {
	return []float64{
		1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500, 1000, 2000, 3000, 4000, 5000, 10000, 20000, 30000, 40000, 50000,
	}
}

// metrics are the golden metrics, under the names and labels of a proxy's
// inbound side. Server, route and authorization are those that a proxy of the
// control plane shows: the default policy.
type metrics struct {
	requests, responses          *prometheus.CounterVec
	latency                      *prometheus.HistogramVec
	open, readBytes, writeBytes  *prometheus.CounterVec
	closes                       *prometheus.CounterVec
	openConnections              *prometheus.GaugeVec
	allowed, headers, connErrors *prometheus.CounterVec

	mu     sync.Mutex
	series map[seriesKey]*connSeries
}

// seriesKey is what the series of connections differ in.
type seriesKey struct {
	target   string
	port     uint16
	tls      bool
	clientID string
}

// connSeries are the series of connections with one target and client.
type connSeries struct {
	open, readBytes, writeBytes, requests, allowed prometheus.Counter
	openConnections                                prometheus.Gauge
	responses, closes                              *prometheus.CounterVec
	latency                                        prometheus.Observer
}

const defaultPolicy = "all-unauthenticated"

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	target := []string{"target_addr", "target_ip", "target_port"}
	tls := []string{"tls", "no_tls_reason", "client_id"}
	server := []string{"srv_group", "srv_kind", "srv_name", "srv_port"}
	route := []string{"route_group", "route_kind", "route_name", "authz_group", "authz_kind", "authz_name"}
	join := func(lists ...[]string) []string {
		var all []string
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	request := join([]string{"direction"}, target, tls, server, route)
	tcp := join([]string{"direction", "peer"}, target, tls, server)
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		requests:  counter("request_total", "Requests that began.", request),
		responses: counter("response_total", "Responses that ended.", join(request, []string{"status_code", "classification", "grpc_status", "error"})),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "response_latency_ms", Help: "Time from the begin of a request to the end of its response.", Buckets: LatencyBuckets(),
		}, join(request, []string{"status_code"})),
		open:       counter("tcp_open_total", "Connections that were opened.", tcp),
		closes:     counter("tcp_close_total", "Connections that were closed.", join(tcp, []string{"errno"})),
		readBytes:  counter("tcp_read_bytes_total", "Bytes read from peers, TLS included.", tcp),
		writeBytes: counter("tcp_write_bytes_total", "Bytes written to peers, TLS included.", tcp),
		openConnections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tcp_open_connections", Help: "Connections that are open.",
		}, tcp),
		allowed:    counter("inbound_http_authz_allow_total", "Requests that were authorized.", join(target, tls, server, route)),
		headers:    counter("inbound_tcp_transport_header_connections_total", "Connections of the direct path.", []string{"session_protocol", "target_port", "target_name", "client_id"}),
		connErrors: counter("inbound_tcp_errors_total", "Connections that were refused.", []string{"error", "target_port"}),
		series:     map[seriesKey]*connSeries{},
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.responses, m.latency, m.open, m.closes, m.readBytes, m.writeBytes, m.openConnections, m.allowed, m.headers, m.connErrors,
	} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register golden metrics: %w", err)
		}
	}
	return m, nil
}

// forConn returns the series of a connection. Their number is bounded by the
// identities of the mesh, since nobody else is let in.
func (m *metrics) forConn(port uint16, local net.Addr, info *AuthInfo) *connSeries {
	host, _, err := net.SplitHostPort(local.String())
	if err != nil {
		host = local.String()
	}
	key := seriesKey{host, port, info.TLS, info.ClientID}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.series[key]; s != nil {
		return s
	}
	portText := strconv.Itoa(int(port))
	tls := prometheus.Labels{"tls": "true", "no_tls_reason": "", "client_id": info.ClientID}
	if !info.TLS {
		tls = prometheus.Labels{"tls": "no_identity", "no_tls_reason": "loopback", "client_id": ""}
	}
	target := prometheus.Labels{"target_addr": net.JoinHostPort(host, portText), "target_ip": host, "target_port": portText}
	server := prometheus.Labels{"srv_group": "", "srv_kind": "default", "srv_name": defaultPolicy, "srv_port": portText}
	route := prometheus.Labels{
		"route_group": "", "route_kind": "default", "route_name": "default",
		"authz_group": "", "authz_kind": "default", "authz_name": defaultPolicy,
	}
	inbound := prometheus.Labels{"direction": "inbound"}
	allow := merge(target, tls, server, route)
	request := merge(inbound, allow)
	tcp := merge(inbound, target, tls, server, prometheus.Labels{"peer": "src"})
	s := &connSeries{
		open:            m.open.With(tcp),
		readBytes:       m.readBytes.With(tcp),
		writeBytes:      m.writeBytes.With(tcp),
		openConnections: m.openConnections.With(tcp),
		closes:          m.closes.MustCurryWith(tcp),
		requests:        m.requests.With(request),
		allowed:         m.allowed.With(allow),
		responses:       m.responses.MustCurryWith(request),
		latency:         m.latency.With(merge(request, prometheus.Labels{"status_code": "200"})),
	}
	m.series[key] = s
	return s
}

func merge(sets ...prometheus.Labels) prometheus.Labels {
	out := prometheus.Labels{}
	for _, set := range sets {
		for name, value := range set {
			out[name] = value
		}
	}
	return out
}

// closed counts the end of a connection.
func (s *connSeries) closed(errno string) { s.closes.WithLabelValues(errno).Inc() }

// header counts a connection of the direct path.
func (m *metrics) header(h Header, info *AuthInfo) {
	m.headers.WithLabelValues(h.Protocol.String(), strconv.Itoa(int(h.Port)), h.Name, info.ClientID).Inc()
}

// Start counts a call at its begin and at its end: streams last for hours.
func (m *metrics) Start(ctx context.Context, _ string) func(codes.Code) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(*AuthInfo)
	if !ok {
		return nil
	}
	begin, s := time.Now(), info.series
	s.requests.Inc()
	s.allowed.Inc()
	return func(code codes.Code) {
		s.latency.Observe(float64(time.Since(begin)) / float64(time.Millisecond))
		s.responses.WithLabelValues("200", classify(code), strconv.Itoa(int(code)), "").Inc()
	}
}

// classify is the proxy's view of a gRPC status: the server's own faults are
// failures.
func classify(code codes.Code) string {
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.PermissionDenied, codes.Internal, codes.Unavailable, codes.DataLoss:
		return "failure"
	}
	return "success"
}
