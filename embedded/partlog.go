package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// longestPartLog bounds the log that each container of a control-plane pod has, in bytes:
// some hundred lines.
const longestPartLog = 64 << 10

// partLogs are logs of what this process does in the place of control-plane pods,
// in files of the format that kubelets have, one for each container.
type partLogs struct {
	dir string
	mu  sync.Mutex // held while a file is written
}

// partContainers are the containers that log what a part does.
func partContainers(part, api string) []string {
	switch {
	case part == "identity":
		return []string{"identity"}
	case part == "webhook", part == "admission":
		return []string{"proxy-injector", "sp-validator"}
	case part == "status", api == "policy":
		return []string{"policy"}
	case slices.Contains([]string{"controlplane", "state", "links", "workloads"}, part):
		return []string{"destination"}
	}
	return nil
}

// path is the log of a container, which exists if it is one that logs.
func (p *partLogs) path(container string) (string, error) {
	path := filepath.Join(p.dir, container+".log")
	_, err := os.Stat(path)
	return path, err
}

// open makes the logs anew.
func (p *partLogs) open() error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	for _, container := range []string{"identity", "proxy-injector", "sp-validator", "policy", "destination"} {
		if err := os.WriteFile(filepath.Join(p.dir, container+".log"), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// add adds a line to the log of a container. A log that has become too long begins
// anew with its second half.
func (p *partLogs) add(container string, line []byte) error {
	path := filepath.Join(p.dir, container+".log")
	p.mu.Lock()
	defer p.mu.Unlock()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	info, statErr := file.Stat()
	if err = errors.Join(err, statErr, file.Close()); err != nil || info.Size() < longestPartLog {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data = data[len(data)/2:]
	data = data[bytes.IndexByte(data, '\n')+1:]
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// partHandler passes records on, and adds those of parts to their logs.
type partHandler struct {
	slog.Handler
	logs      *partLogs
	attrs     []slog.Attr
	part, api string
}

// Enabled is part of slog.Handler: pods have the log of a control plane of level info.
func (h *partHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && len(partContainers(h.part, h.api)) > 0 || h.Handler.Enabled(ctx, level)
}

// Handle is part of slog.Handler.
func (h *partHandler) Handle(ctx context.Context, record slog.Record) error {
	var err error
	for _, container := range partContainers(h.part, h.api) {
		var text bytes.Buffer
		text.WriteString(record.Time.UTC().Format(time.RFC3339Nano) + " stderr F ")
		err = errors.Join(err, slog.NewTextHandler(&text, nil).WithAttrs(h.attrs).Handle(ctx, record))
		err = errors.Join(err, h.logs.add(container, text.Bytes()))
	}
	if h.Handler.Enabled(ctx, record.Level) {
		err = errors.Join(err, h.Handler.Handle(ctx, record))
	}
	return err
}

// WithAttrs is part of slog.Handler.
func (h *partHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.Handler, next.attrs = h.Handler.WithAttrs(attrs), slices.Concat(h.attrs, attrs)
	for _, attr := range attrs {
		switch attr.Key {
		case "part":
			next.part = attr.Value.String()
		case "api":
			next.api = attr.Value.String()
		}
	}
	return &next
}

// WithGroup is part of slog.Handler.
func (h *partHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.Handler = h.Handler.WithGroup(name)
	return &next
}
