package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// stopGrace is how long requests in flight have at the end.
const stopGrace = 100 * time.Millisecond

// Config sets up a Server.
type Config struct {
	// Listener is where the server serves; it owns it from Run on.
	Listener net.Listener
	// Ready says whether all parts are ready.
	Ready func() bool
	// Status describes the parts; it is what /ready answers.
	Status func() []lifecycle.Status
	// Manifests describes how far the manifests are applied; nil without any.
	Manifests func() any
	// Problems lists what is wrong with the objects of others; nil for nothing.
	Problems func() []problems.Problem
	// State describes what the control plane holds: all tables for "", else what is
	// in that one. The error says that there is no such table. Nil serves no /state.
	State    func(table string) (any, error)
	Gatherer prometheus.Gatherer
	// Pprof serves /debug/pprof.
	Pprof bool
	Log   *slog.Logger
}

// Server serves the admin address.
type Server struct {
	config Config
	server *http.Server
}

// New prepares a server.
func New(config Config) *Server {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{config: config}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", answer("alive\n"))
	mux.HandleFunc("GET /ping", answer("pong\n"))
	mux.HandleFunc("GET /ready", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(config.Gatherer, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(config.Log.Handler(), slog.LevelWarn),
		// The policy controller's format (policy-inbound 1.4), for those who ask for it.
		EnableOpenMetrics: true,
	}))
	if config.State != nil {
		mux.HandleFunc("GET /state", s.state)
		mux.HandleFunc("GET /state/{table}", s.state)
	}
	if config.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	s.server = &http.Server{
		Handler:           ownNames(mux),
		ReadHeaderTimeout: 15 * time.Second,
		ErrorLog:          slog.NewLogLogger(config.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// ownNames refuses requests to a loopback address under a name that somebody may own: a browser sends
// those of a page whose name was made to lead here after it was loaded (F11).
func ownNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if to != nil && to.IP.IsLoopback() && !unowned(r.Host) {
			http.Error(w, "requests to this address are answered under localhost or a number, not under a name of the DNS", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unowned reports whether a host with or without a port is a number or a name that no stranger can have.
func unowned(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
		return true
	}
	return strings.HasSuffix(name, ".localhost") || strings.HasSuffix(name, ".internal")
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		// Who has gone away needs no answer.
		_, _ = w.Write([]byte(text))
	}
}

// Readiness is the answer of /ready.
type Readiness struct {
	Ready bool               `json:"ready"`
	Parts []lifecycle.Status `json:"parts"`
	// Manifests is absent without any. It does not count for Ready.
	Manifests any `json:"manifests,omitempty"`
	// Problems are warnings: they are of objects, and the control plane works.
	Problems []problems.Problem `json:"problems,omitempty"`
}

// ready answers 200 once every part is ready, else 500 (D147, P304); both list the parts.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	readiness := Readiness{Ready: s.config.Ready(), Parts: s.config.Status()}
	for _, part := range readiness.Parts {
		if part.State == lifecycle.Stopping || part.Error != "" {
			readiness.Ready = false
		}
	}
	if s.config.Manifests != nil {
		readiness.Manifests = s.config.Manifests()
	}
	if s.config.Problems != nil {
		readiness.Problems = s.config.Problems()
	}
	code := http.StatusOK
	if !readiness.Ready {
		code = http.StatusInternalServerError
	}
	writeJSON(w, code, readiness)
}

// state answers with what the control plane holds.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	described, err := s.config.State(r.PathValue("table"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	writeJSON(w, http.StatusOK, described)
}

func writeJSON(w http.ResponseWriter, code int, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Who has gone away needs no answer.
	_, _ = w.Write(append(body, '\n'))
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context, ready func()) error {
	served := lifecycle.Go("HTTP", func() error { return s.server.Serve(s.config.Listener) })
	ready()
	select {
	case err := <-served:
		return fmt.Errorf("admin address %s: %w", s.config.Listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := s.server.Shutdown(grace); err != nil {
		s.server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
