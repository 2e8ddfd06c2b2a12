package streaming

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/openconns"
)

// Backend has the processes. Its errors may be an apierrors.APIStatus, which
// says the HTTP status; their text is one sentence for the user.
type Backend interface {
	// Serves says why a subresource of a pod (log, exec, attach, portforward) cannot be
	// served: nil if it can, or if there is no such pod. container may be "".
	Serves(subresource, namespace, pod, container string) error
	// Log is the file of a container's output, in the CRI format, and a channel
	// that is closed when nothing more will be written.
	Log(namespace, pod, container string, previous bool) (path string, ended <-chan struct{}, err error)
	// Exec runs a command until it ends or ctx does, which is when the client has
	// gone. A code other than 0 is a CodeExitError of k8s.io/client-go/util/exec. What was
	// not asked for of in, out and errOut is nil. resize ends before the command
	// does, and is nil without a terminal.
	Exec(ctx context.Context, namespace, pod, container string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error
	// Attach is Exec for the process that a container runs. The end of ctx is not
	// that of the process.
	Attach(ctx context.Context, namespace, pod, container string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error
	// Dial connects to a port of a pod.
	Dial(ctx context.Context, namespace, pod string, port uint16) (net.Conn, error)
}

const (
	// idleTimeout ends streams on which nothing happens, as kubelets do.
	idleTimeout = 4 * time.Hour
	// headerTimeout is how long a client may take to say what it wants.
	headerTimeout = 30 * time.Second
)

// Config is what a Server needs.
type Config struct {
	Backend Backend
	// TLS says who may connect.
	TLS *tls.Config
	Log *slog.Logger
}

// Server is the API of a kubelet, as far as the API server uses it.
type Server struct {
	config Config
	// active are the requests that are being answered.
	active sync.WaitGroup
}

// New prepares a server; it does no I/O.
func New(config Config) *Server {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{config: config}
}

// Serve serves until ctx ends. It owns the listener. It is called once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var conns openconns.Set
	server := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		TLSConfig:         s.config.TLS,
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug),
		// A connection that is upgraded cannot be one of HTTP/2.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("kubelet's server", func() error {
		err := server.ServeTLS(trackingListener{listener, &conns}, "", "")
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("serving the kubelet's API: %w", err)
	})
	group.Go("end of the kubelet's server", func() error {
		<-ctx.Done()
		// The server does not know of connections that were upgraded.
		conns.Close()
		return server.Close()
	})
	err := group.Wait()
	s.active.Wait()
	return err
}

// trackingListener remembers connections.
type trackingListener struct {
	net.Listener
	conns *openconns.Set
}

// Accept accepts a connection.
func (l trackingListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c, open := l.conns.Track(raw)
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		path, subresource string
		handle            http.HandlerFunc
	}{
		{"/containerLogs/{namespace}/{pod}/{container}", "log", s.logs},
		{"/exec/{namespace}/{pod}/{container}", "exec", s.exec},
		{"/attach/{namespace}/{pod}/{container}", "attach", s.attach},
		{"/portForward/{namespace}/{pod}", "portforward", s.portForward},
	} {
		mux.HandleFunc(route.path, func(w http.ResponseWriter, r *http.Request) {
			s.active.Add(1)
			defer s.active.Done()
			t := s.target(r)
			if err := t.Serves(route.subresource, t.namespace, t.pod, t.container); err != nil {
				fail(w, err)
				return
			}
			route.handle(w, r)
		})
	}
	return mux
}

// fail answers with an error before anything else was said.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code != 0 {
		code = int(status.Status().Code)
	}
	// The API server passes the text on as it is.
	w.WriteHeader(code)
	io.WriteString(w, err.Error())
}

// target is what a request is about, for the packages that speak the protocols.
type target struct {
	Backend
	namespace, pod, container string
}

func (s *Server) target(r *http.Request) target {
	return target{s.config.Backend, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")}
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	s.remoteCommand(w, r, func(w http.ResponseWriter, r *http.Request, t target, options *remotecommand.Options) {
		remotecommand.ServeExec(w, r, t, t.pod, "", t.container, r.URL.Query()["command"], options,
			idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	s.remoteCommand(w, r, func(w http.ResponseWriter, r *http.Request, t target, options *remotecommand.Options) {
		remotecommand.ServeAttach(w, r, t, t.pod, "", t.container, options,
			idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	})
}

func (s *Server) remoteCommand(w http.ResponseWriter, r *http.Request, serve func(http.ResponseWriter, *http.Request, target, *remotecommand.Options)) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	serve(&watched{w, cancel}, r.WithContext(ctx), s.target(r), options)
}

// ExecInContainer runs a command.
func (t target) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	return t.Exec(ctx, t.namespace, t.pod, t.container, command, in, out, errOut, tty, resize)
}

// AttachContainer attaches to the process of a container.
func (t target) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return t.Attach(ctx, t.namespace, t.pod, t.container, in, out, errOut, tty, resize)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	f := &forwarder{target: s.target(r), ctx: ctx}
	portforward.ServePortForward(&watched{w, cancel}, r.WithContext(ctx), f, f.pod, "", options,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	cancel()
	if err := f.copies.Wait(); err != nil {
		s.config.Log.Error("port-forward failed", "namespace", f.namespace, "pod", f.pod, "error", err)
	}
}
