package embedded

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"

	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// libraryHandler lowers the level of what libraries log by one step, or two
// for errors: Kubernetes calls much an error that is retried a moment later.
type libraryHandler struct {
	slog.Handler
	// last are the newest messages; klog's fatal lines come in here as information.
	last *lastLines
}

func lowered(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return slog.LevelInfo
	}
	return level - 4
}

func (h libraryHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h libraryHandler) Handle(ctx context.Context, record slog.Record) error {
	h.last.add(record.Message)
	record.Level = lowered(record.Level)
	if !h.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs), h.last}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name), h.last}
}

// CaptureLibraryLogs sends what Kubernetes and gRPC log to log. These settings
// are process-wide: it is called once, from a command. The returned function
// is the last line that Kubernetes logged in the goroutine that calls it.
func CaptureLibraryLogs(log *slog.Logger) (last func() string) {
	handler := libraryHandler{log.Handler().WithAttrs([]slog.Attr{slog.String("part", "kubernetes")}), new(lastLines)}
	klog.SetSlogLogger(slog.New(handler))
	// etcd's client package sets gRPC's logger when it is loaded.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	return handler.last.ofCaller
}

// lastLines remembers the newest lines with the goroutines that logged them. A
// line that ends the process is logged and acted upon in one goroutine, while
// others go on logging what has nothing to do with it.
type lastLines struct {
	mu    sync.Mutex
	next  int
	lines [64]struct{ goroutine, text string }
}

func (l *lastLines) add(text string) {
	goroutine := goroutineName()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[l.next%len(l.lines)] = struct{ goroutine, text string }{goroutine, text}
	l.next++
}

// ofCaller is the newest line of the goroutine that calls it, or the newest of
// all if there is none.
func (l *lastLines) ofCaller() string {
	goroutine := goroutineName()
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.next - 1; n >= 0 && n >= l.next-len(l.lines); n-- {
		if line := l.lines[n%len(l.lines)]; line.goroutine == goroutine {
			return line.text
		}
	}
	if l.next == 0 {
		return ""
	}
	return l.lines[(l.next-1)%len(l.lines)].text
}

// goroutineName is what a stack begins with: "goroutine 7".
func goroutineName() string {
	var stack [32]byte
	name, _, _ := strings.Cut(string(stack[:runtime.Stack(stack[:], false)]), " [")
	return name
}
