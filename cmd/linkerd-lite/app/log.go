package app

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"
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
