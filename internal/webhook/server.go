package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

const (
	// maxBody is the size of the largest review, in bytes.
	maxBody = 10 << 20
	// reviewTimeout is the longest that the API server waits for a review (it may ask for less).
	reviewTimeout = 30 * time.Second
	// stopTimeout is how long reviews may go on after the end of the context. It is short, as an HTTP/2 connection without
	// any takes a second to be given up.
	stopTimeout = 100 * time.Millisecond
)

// Endpoint is a review function at a URL path.
type Endpoint struct {
	// Name is used in logs and metrics.
	Name string
	// Path starts with a slash.
	Path    string
	Review  ReviewFunc
	Dialect Dialect
}

// Config is what a Server needs.
type Config struct {
	// Listener is bound to an address that only the API server can reach.
	Listener  net.Listener
	Endpoints []Endpoint
	// Client is the only one that is answered.
	Client *Client
	// Dir is where the certificates are kept; empty keeps them in memory.
	Dir string
	// DNSNames are in the certificate beside the loopback addresses.
	DNSNames []string
	// Replaced, when set, is called in the handshake that first shows another certificate than before. It must not wait.
	Replaced   func()
	Registerer prometheus.Registerer
	Log        *slog.Logger
	// Now is the clock of the certificates, time.Now if nil.
	Now func() time.Time
}

// Server answers admission reviews by HTTPS.
type Server struct {
	config       Config
	mux          *http.ServeMux
	certificates *certificates
	metrics      *metrics
}

// New checks the configuration and registers the metrics.
func New(config Config) (*Server, error) {
	if config.Listener == nil {
		return nil, errors.New("webhook: no listener")
	}
	if config.Client == nil {
		return nil, errors.New("webhook: no client to answer")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Replaced == nil {
		config.Replaced = func() {}
	}
	metrics, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:       config,
		mux:          http.NewServeMux(),
		metrics:      metrics,
		certificates: newCertificates(config.Dir, config.DNSNames, config.Now, config.Log),
	}
	seen := map[string]bool{}
	for _, endpoint := range config.Endpoints {
		if endpoint.Name == "" || endpoint.Review == nil || !strings.HasPrefix(endpoint.Path, "/") || seen[endpoint.Path] {
			return nil, fmt.Errorf("webhook: endpoint %q at %q needs a name, a path of its own and a function", endpoint.Name, endpoint.Path)
		}
		seen[endpoint.Path] = true
		pattern := endpoint.Path
		if pattern == "/" {
			pattern = "/{$}"
		}
		s.mux.Handle(pattern, &handler{Endpoint: endpoint, metrics: metrics, log: config.Log.With("webhook", endpoint.Name)})
	}
	return s, nil
}

// URL is that of a path.
func (s *Server) URL(path string) string {
	return "https://" + s.config.Listener.Addr().String() + path
}

// CABundle is the certificate of the authority that the API server must trust, as PEM. It is there once Run called
// ready.
func (s *Server) CABundle() []byte { return s.certificates.bundle() }

// KeyPair is the certificate that the server shows, and its key, as PEM. It is there once Run called ready, and another
// one after Config.Replaced was called.
func (s *Server) KeyPair() (cert, key []byte) { return s.certificates.served() }

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context, ready func()) error {
	if err := s.certificates.load(); err != nil {
		return fmt.Errorf("webhook certificates: %w", err)
	}
	server := &http.Server{
		Handler:           s.mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30*time.Second + reviewTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: s.certificate,
			// Who holds the key of the client's certificate is known by the certificate itself.
			ClientAuth:       tls.RequireAnyClientCert,
			VerifyConnection: s.config.Client.verify,
		},
	}
	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("admission reviews", func() error {
		if err := server.ServeTLS(s.config.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve admission reviews on %s: %w", s.config.Listener.Addr(), err)
		}
		return nil
	})
	group.Go("end of admission reviews", func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			return server.Close()
		}
		return nil
	})
	ready()
	return group.Wait()
}

// certificate is called for each handshake.
func (s *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	certificate, replaced := s.certificates.get()
	if replaced {
		s.config.Replaced()
	}
	return certificate, nil
}

// handler is the HTTP side of an endpoint.
type handler struct {
	Endpoint
	metrics *metrics
	log     *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	if h.Dialect == PolicyDialect && r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		h.metrics.count(h.Name, resultInvalid, start)
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, fmt.Sprintf("read the admission review: %v", err), status)
		return
	}
	if len(body) == 0 && h.Dialect == ControllerDialect {
		h.metrics.count(h.Name, resultInvalid, start)
		return
	}
	review, err := decodeReview(body)
	if err != nil && !(h.Dialect == PolicyDialect && review.Request != nil && review.Kind == reviewKind) {
		h.metrics.count(h.Name, resultInvalid, start)
		h.log.Warn("unusable admission review", "error", err)
		h.refuse(w, review, err)
		return
	}
	// The context also ends when the client is gone.
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review.Response = respond(ctx, h.Review, review.Request, h.log)
	result := resultAllowed
	if !review.Response.Allowed {
		result = resultDenied
	}
	h.metrics.count(h.Name, result, start)
	h.log.Debug("admission review", "kind", review.Request.Kind.Kind, "object", review.Request.Namespace+"/"+review.Request.Name,
		"allowed", review.Response.Allowed)
	if h.Dialect == PolicyDialect {
		review.Request = nil
	}
	h.write(w, http.StatusOK, review)
}

// refuse answers a review that cannot be used. A UID is repeated if there is one (B38).
func (h *handler) refuse(w http.ResponseWriter, review *admissionv1.AdmissionReview, reason error) {
	uid := admissionv1.AdmissionRequest{}.UID
	if review.Request != nil {
		uid = review.Request.UID
	}
	if h.Dialect == PolicyDialect {
		h.write(w, http.StatusOK, unusable(uid, reason.Error()))
		return
	}
	if uid == "" {
		http.Error(w, reason.Error(), http.StatusBadRequest)
		return
	}
	h.write(w, http.StatusBadRequest, unusable(uid, reason.Error()))
}

func (h *handler) write(w http.ResponseWriter, status int, review *admissionv1.AdmissionReview) {
	data, err := json.Marshal(review)
	if err != nil {
		h.log.Error("encode the answer to an admission review", "error", err)
		http.Error(w, "encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		h.log.Debug("answer to an admission review not sent", "error", err)
	}
}
