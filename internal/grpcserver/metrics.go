package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Naming is how a service's metrics spell the values of grpc_code.
type Naming int

const (
	// ControllerNaming is that of destination and identity: NotFound.
	ControllerNaming Naming = iota
	// PolicyNaming is that of the policy services: NOT_FOUND. Their unary
	// answers are not counted as messages sent (P307).
	PolicyNaming
)

// Metrics are the grpc_server_* metrics of all services of one process.
type Metrics struct {
	started, handled, received, sent *prometheus.CounterVec
	seconds                          *prometheus.HistogramVec
}

// NewMetrics registers the metrics. One value serves any number of servers.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		started:  counter("grpc_server_started_total", "Calls that began.", labels...),
		handled:  counter("grpc_server_handled_total", "Calls that ended, by status code.", append([]string{"grpc_code"}, labels...)...),
		received: counter("grpc_server_msg_received_total", "Messages received from clients.", labels...),
		sent:     counter("grpc_server_msg_sent_total", "Messages sent to clients.", labels...),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "grpc_server_handling_seconds",
			Help:    "Time from the begin of a call to its end.",
			Buckets: []float64{0.1, 1, 300, 3600},
		}, labels),
	}
	for _, c := range []prometheus.Collector{m.started, m.handled, m.received, m.sent, m.seconds} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register gRPC server metrics: %w", err)
		}
	}
	return m, nil
}

// method holds the series of one method, looked up once.
type method struct {
	name                    string
	naming                  Naming
	labels                  []string
	started, received, sent prometheus.Counter
	ok                      prometheus.Counter
	handled                 *prometheus.CounterVec
	seconds                 prometheus.Observer
}

// method resolves the series of service/name.
func (m *Metrics) method(service, name string, stream bool, naming Naming) *method {
	kind := "unary"
	if stream {
		kind = "server_stream"
	}
	labels := []string{kind, service, name}
	out := &method{
		name:     "/" + service + "/" + name,
		naming:   naming,
		labels:   labels,
		started:  m.started.WithLabelValues(labels...),
		received: m.received.WithLabelValues(labels...),
		sent:     m.sent.WithLabelValues(labels...),
		seconds:  m.seconds.WithLabelValues(labels...),
		handled:  m.handled,
	}
	out.ok = out.code(codes.OK)
	return out
}

// code is the counter of calls that ended with c.
func (m *method) code(c codes.Code) prometheus.Counter {
	value := c.String()
	if m.naming == PolicyNaming {
		value = upperSnake(value)
	}
	return m.handled.WithLabelValues(append([]string{value}, m.labels...)...)
}

// end counts the end of a call that began at start.
func (m *method) end(c codes.Code, start time.Time) {
	m.seconds.Observe(time.Since(start).Seconds())
	if c == codes.OK {
		m.ok.Inc()
		return
	}
	m.code(c).Inc()
}

// upperSnake turns NotFound into NOT_FOUND; OK stays.
func upperSnake(name string) string {
	if name == "OK" {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

// codeOf is the status code that grpc-go will send for err.
func codeOf(err error) codes.Code {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if _, isStatus := status.FromError(err); !isStatus {
			return status.FromContextError(err).Code()
		}
	}
	return status.Code(err)
}

// countedStream counts the messages of one stream.
type countedStream struct {
	grpc.ServerStream
	method *method
}

func (s *countedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.method.sent.Inc()
	}
	return err
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.method.received.Inc()
	}
	return err
}
