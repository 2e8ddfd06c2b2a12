package dataplane

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newAdmin serves what kubelets, scrapers and scripts ask a proxy (proxy
// section 8).
func newAdmin(config *Config, ready <-chan struct{}, registry *prometheus.Registry, shutdown func()) *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/live", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "live\n") })
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ready:
			_, _ = io.WriteString(w, "ready\n")
		default:
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: debugLog(config.Log)}))
	mux.HandleFunc("/shutdown", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !config.ShutdownEndpoint:
			http.NotFound(w, r)
		case r.Method != http.MethodPost:
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		case !acceptedOf(r.Context()).client.Addr.IsLoopback():
			http.Error(w, "only clients of this pod may end the proxy", http.StatusForbidden)
		default:
			_, _ = io.WriteString(w, "shutdown\n")
			shutdown()
		}
	})
	server := newHTTPServer(mux, config.Log)
	server.ConnContext = remoteAccepted
	return server
}
