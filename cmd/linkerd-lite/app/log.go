package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
)

// logOptions are the flags of all commands that log.
type logOptions struct {
	level   string
	format  string
	verbose bool
}

var (
	logLevels  = []string{"error", "warn", "info", "debug"}
	logFormats = []string{"plain", "json"}
)

func (o *logOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.level, "log-level", "warn", "what to log: error, warn, info or debug")
	flags.StringVar(&o.format, "log-format", "plain", "plain or json")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "same as --log-level=info")
}

// logger makes the one logger of the process.
func (o *logOptions) logger(out io.Writer) (*slog.Logger, error) {
	if !slices.Contains(logLevels, o.level) {
		return nil, fmt.Errorf("--log-level=%s: must be one of %v", o.level, logLevels)
	}
	if !slices.Contains(logFormats, o.format) {
		return nil, fmt.Errorf("--log-format=%s: must be one of %v", o.format, logFormats)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return nil, err
	}
	if o.verbose && level > slog.LevelInfo {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if o.format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}

// libraryHandler lowers the level of what libraries log by one step, or two
// for errors: Kubernetes calls much an error that is retried a moment later.
type libraryHandler struct {
	slog.Handler
	// last is the newest message; klog's fatal lines come in here as information.
	last *atomic.Pointer[string]
}

func lowered(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return slog.LevelInfo
	}
	return level - 4
}

func (h libraryHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h libraryHandler) Handle(ctx context.Context, record slog.Record) error {
	message := record.Message
	h.last.Store(&message)
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

// captureLibraryLogs sends what Kubernetes and gRPC log to log. These settings
// are process-wide: it is called once, from a command. The returned function
// is the last line that Kubernetes logged.
func captureLibraryLogs(log *slog.Logger) (last func() string) {
	handler := libraryHandler{log.Handler().WithAttrs([]slog.Attr{slog.String("part", "kubernetes")}), new(atomic.Pointer[string])}
	klog.SetSlogLogger(slog.New(handler))
	// etcd's client package sets gRPC's logger when it is loaded.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	return func() string {
		if message := handler.last.Load(); message != nil {
			return *message
		}
		return ""
	}
}
