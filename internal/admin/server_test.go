package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Series are served in the format of Prometheus, and in OpenMetrics to those who ask.
func TestMetricsFormat(t *testing.T) {
	server := New(Config{Gatherer: prometheus.NewRegistry()})
	for accept, want := range map[string]string{
		"": "text/plain", "application/openmetrics-text; version=1.0.0": "application/openmetrics-text",
	} {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Header.Set("Accept", accept)
		recorder := httptest.NewRecorder()
		server.server.Handler.ServeHTTP(recorder, request)
		if got := recorder.Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("asked for %q: %s, want %s", accept, got, want)
		}
	}
}

func TestServer(t *testing.T) {
	var ready atomic.Bool
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "made_up_total", Help: "Nothing."})
	registry.MustRegister(counter)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Config{
		Listener: listener,
		Ready:    ready.Load,
		Status: func() []lifecycle.Status {
			return []lifecycle.Status{{Name: "state", State: lifecycle.Running}}
		},
		Problems: func() []problems.Problem {
			return []problems.Problem{{Object: problems.Object{Kind: "Server", Name: "web"}, Message: "no port", Source: "decode"}}
		},
		Gatherer: registry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, func() {}) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, row := range []struct {
		name, method, path string
		ready              bool
		status             int
		want               string
	}{
		{"P304 not ready", "GET", "/ready", false, 500, `"ready": false`},
		{"P304 ready", "GET", "/ready", true, 200, `"name": "state"`},
		{"ready with problems of others", "GET", "/ready", true, 200, `"message": "no port"`},
		{"P304 alive before it is ready", "GET", "/live", false, 200, "alive\n"},
		{"P304 alive", "GET", "/live", true, 200, "alive\n"},
		{"D147 ping", "GET", "/ping", false, 200, "pong\n"},
		{"metrics", "GET", "/metrics", true, 200, "made_up_total 0"},
		{"P305 the root", "GET", "/", true, 404, ""},
		{"P305 another path", "GET", "/healthz", true, 404, ""},
		{"P305 below a path", "GET", "/live/x", true, 404, ""},
		{"P305 profiles, unless asked for", "GET", "/debug/pprof/", true, 404, ""},
		{"only read", "POST", "/live", true, 405, ""},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			ready.Store(row.ready)
			request, err := http.NewRequestWithContext(t.Context(), row.method, "http://"+listener.Addr().String()+row.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != row.status || !strings.Contains(string(body), row.want) {
				t.Errorf("%d %s, want %d with %q", response.StatusCode, body, row.status, row.want)
			}
		})
	}
}

// A page of a stranger whose name leads to loopback reads nothing.
func TestNamesOfStrangers(t *testing.T) {
	rulebook.Covers(t, "F11")
	server := New(Config{Gatherer: prometheus.NewRegistry()})
	for _, row := range []struct {
		host, local string
		code        int
	}{
		{"evil.example", "127.0.0.1", http.StatusForbidden},
		{"evil.example:9990", "::1", http.StatusForbidden},
		{"127.0.0.1.evil.example:9990", "127.0.0.1", http.StatusForbidden},
		{"127.0.0.1:9990", "127.0.0.1", http.StatusOK},
		{"[::1]:9990", "::1", http.StatusOK},
		{"localhost:9990", "127.0.0.1", http.StatusOK},
		{"localhost", "127.0.0.1", http.StatusOK},
		{"host.docker.internal:9990", "127.0.0.1", http.StatusOK},
		{"", "127.0.0.1", http.StatusOK}, // HTTP/1.0
		{"node.example:9990", "192.0.2.1", http.StatusOK},
	} {
		request := httptest.NewRequest("GET", "/metrics", nil)
		request.Host = row.host
		request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(row.local)}))
		recorder := httptest.NewRecorder()
		server.server.Handler.ServeHTTP(recorder, request)
		if recorder.Code != row.code {
			t.Errorf("%q at %s: %d, want %d", row.host, row.local, recorder.Code, row.code)
		}
	}
}

// What the control plane holds is served where there is one; a table that there is not is not found.
func TestState(t *testing.T) {
	described := func(table string) (any, error) {
		if table == "nothing" {
			return nil, errors.New("there is no such table")
		}
		return map[string]string{"asked": table}, nil
	}
	for _, row := range []struct {
		state func(string) (any, error)
		path  string
		code  int
		body  string
	}{
		{described, "/state", http.StatusOK, `"asked": ""`},
		{described, "/state/server", http.StatusOK, `"asked": "server"`},
		{described, "/state/nothing", http.StatusNotFound, "there is no such table"},
		{nil, "/state", http.StatusNotFound, ""},
	} {
		recorder := httptest.NewRecorder()
		New(Config{Gatherer: prometheus.NewRegistry(), State: row.state}).server.Handler.ServeHTTP(recorder, httptest.NewRequest("GET", row.path, nil))
		if recorder.Code != row.code || !strings.Contains(recorder.Body.String(), row.body) {
			t.Errorf("%s: %d %s", row.path, recorder.Code, recorder.Body)
		}
	}
}
