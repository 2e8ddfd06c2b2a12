package dataplane

import (
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

// copySize is that of the buffers between connections, in bytes.
const copySize = 32 << 10

// buffers are shared by all that copies.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { b := make([]byte, copySize); return &b }}}
}

// Get and Put make it an httputil.BufferPool.
func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// unproxied are headers that httputil.ReverseProxy takes away, and a proxy that
// nobody knows of leaves.
var unproxied = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// newForwarder passes requests on by transport and writes an answer for those
// that fail.
func newForwarder(transport http.RoundTripper, pool *buffers, logger *slog.Logger, failed func(http.ResponseWriter, *http.Request, error)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: transport, BufferPool: pool, ErrorHandler: failed, ErrorLog: debugLog(logger),
		// Of a length that is not known, everything is sent at once; the length
		// itself is in the header. What has no body is sent as one: a status of
		// gRPC has to end the stream.
		ModifyResponse: func(res *http.Response) error {
			if res.ContentLength > 0 {
				res.ContentLength = -1
			}
			return nil
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Host = r.In.Host
			r.Out.Trailer = r.In.Trailer
			for _, name := range unproxied {
				if values, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = values
				}
			}
		},
	}
}

// debugLog is a logger for libraries that have none with levels.
func debugLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }

// newHTTPServer serves HTTP/1 and HTTP/2, whose first bytes differ.
func newHTTPServer(handler http.Handler, logger *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: handler, ConnContext: withAccepted, DisableGeneralOptionsHandler: true,
		// What it says is of faults here: panics of handlers.
		ErrorLog:  slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		Protocols: &http.Protocols{},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 100_000, SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// pingAfter is how long an HTTP/2 client may be silent before it is asked
// whether it is there, and how long it may take to answer.
const pingAfter = 10 * time.Second

// unmarked keeps net/http from adding headers to answers that are passed on.
func unmarked(w http.ResponseWriter, r *http.Request) {
	for _, name := range []string{"Content-Type", "Date"} {
		w.Header()[name] = nil
	}
	if r.ProtoMajor == 1 {
		// Answers may begin before requests end.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
}

func isGRPC(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/grpc") }

func grpcStatus(c codes.Code) string { return strconv.Itoa(int(c)) }

// write sends an answer of the proxy's own. Named says whether proxies may be
// seen at work, by headers.
func write(w http.ResponseWriter, r *http.Request, a *verdict.Answer, named bool) {
	h := w.Header()
	clear(h)
	h.Set("Content-Length", "0")
	if named {
		h.Set(headerError, a.Message)
		if a.Close {
			h.Set(headerConnection, "close")
		}
	}
	if a.Close && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
	}
	status := a.Status
	if isGRPC(r.Header) && r.ProtoMajor == 2 || a.GRPC {
		status = http.StatusOK
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", grpcStatus(a.Code))
		h.Set("Grpc-Message", a.Message)
	}
	w.WriteHeader(status)
}

// join copies bytes both ways until both sides have said all.
func (b *buffers) join(one, other net.Conn) {
	var group errgroup.Group
	for _, pair := range [][2]net.Conn{{one, other}, {other, one}} {
		group.Go(func() error {
			buffer := b.Get()
			defer b.Put(buffer)
			// The types hide what would let the copy go without the buffer.
			_, err := io.CopyBuffer(struct{ io.Writer }{pair[0]}, struct{ io.Reader }{pair[1]}, buffer)
			if err == nil {
				return closeWrite(pair[0])
			}
			// Nothing more can be said either way.
			one.Close()
			other.Close()
			return err
		})
	}
	_ = group.Wait()
}

// sniffed reads until the first bytes tell what a connection speaks, but not
// longer than timeout; who waits for the server to speak first is unknown then.
// It returns the connection as it was.
func sniffed(c net.Conn, timeout time.Duration, enough func([]byte) bool) (net.Conn, []byte, error) {
	buffer := make([]byte, 0, sniffBytes)
	_ = c.SetReadDeadline(time.Now().Add(timeout))
	for len(buffer) < cap(buffer) && !enough(buffer) {
		n, err := c.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if timedOut(err) {
			break
		}
		if err != nil {
			if len(buffer) == 0 {
				return nil, nil, err
			}
			break
		}
	}
	_ = c.SetReadDeadline(time.Time{})
	return proxyshim.Unread(c, buffer), buffer, nil
}

// sniffBytes is how many bytes are looked at.
const sniffBytes = 8 << 10

func timedOut(err error) bool {
	t, ok := err.(net.Error)
	return ok && t.Timeout()
}

// copyBody copies a body and sends at once what is there.
func copyBody(w http.ResponseWriter, from io.Reader, buffer []byte) (int64, error) {
	return io.CopyBuffer(flushing{w}, struct{ io.Reader }{from}, buffer)
}

// flushing sends each write.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
