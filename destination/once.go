package destination

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
)

// maxSaid bounds what is remembered, as objects come and go.
const maxSaid = 1000

// onceHandler hands a warning on once. Many views read one object, and they
// come and go with their streams: each would complain of it (B29, B34).
type onceHandler struct {
	slog.Handler
	// with is what With has added to the records.
	with string
	said *said
}

// said has the digests of the warnings that have been handed on; an annotation
// may be long.
type said struct {
	mu      sync.Mutex
	digests map[[sha256.Size]byte]struct{}
}

func warnOnce(log *slog.Logger) *slog.Logger {
	return slog.New(onceHandler{Handler: log.Handler(), said: &said{digests: map[[sha256.Size]byte]struct{}{}}})
}

// Handle implements slog.Handler.
func (h onceHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level == slog.LevelWarn {
		text := h.with + record.Message
		record.Attrs(func(a slog.Attr) bool {
			text += " " + a.String()
			return true
		})
		if !h.said.first(text) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h onceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return onceHandler{h.Handler.WithAttrs(attrs), h.with + fmt.Sprint(attrs), h.said}
}

// WithGroup implements slog.Handler.
func (h onceHandler) WithGroup(name string) slog.Handler {
	return onceHandler{h.Handler.WithGroup(name), h.with + name, h.said}
}

func (s *said) first(text string) bool {
	digest := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.digests[digest]; known {
		return false
	}
	if len(s.digests) >= maxSaid {
		clear(s.digests)
	}
	s.digests[digest] = struct{}{}
	return true
}
