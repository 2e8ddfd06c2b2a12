package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"go.uber.org/zap/zapcore"
)

// logCore passes etcd's log to slog at lower levels: much of what it warns of is
// meant for clusters of several members, and its errors at a stop are none.
type logCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

var (
	_ zapcore.Core           = (*logCore)(nil)
	_ zapcore.CheckWriteHook = (*death)(nil)
)

func level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.DPanicLevel:
		return slog.LevelError
	case l == zapcore.ErrorLevel:
		return slog.LevelInfo
	case l >= zapcore.InfoLevel:
		return slog.LevelDebug
	default:
		return slog.LevelDebug - 4
	}
}

func (c *logCore) Enabled(l zapcore.Level) bool {
	return c.log.Enabled(context.Background(), level(l))
}

func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{log: c.log, fields: append(slices.Clip(c.fields), fields...)}
}

func (c *logCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) || entry.Level >= zapcore.PanicLevel {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *logCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(encoder)
	}
	attrs := make([]slog.Attr, 0, len(encoder.Fields))
	for key, value := range encoder.Fields {
		attrs = append(attrs, slog.Any(key, value))
	}
	slices.SortFunc(attrs, func(a, b slog.Attr) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	c.log.LogAttrs(context.Background(), level(entry.Level), entry.Message, attrs...)
	return nil
}

func (c *logCore) Sync() error { return nil }

// OnWrite is called after a fatal line was written, and must not return.
func (d *death) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	reason := entry.Message
	for _, f := range fields {
		if f.Type == zapcore.ErrorType {
			reason = fmt.Sprintf("%s: %v", reason, f.Interface)
		}
	}
	d.report(fmt.Errorf("etcd gave up: %s", reason))
}
