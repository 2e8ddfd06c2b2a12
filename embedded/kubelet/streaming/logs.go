package streaming

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// logs answers with a container's output.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	options, err := logOptions(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	t := s.target(r)
	path, ended, err := t.Log(t.namespace, t.pod, t.container, options.Previous)
	if err != nil {
		fail(w, err)
		return
	}
	file, err := os.Open(path)
	if err != nil {
		fail(w, fmt.Errorf("the log of container %s cannot be read: %w", t.container, err))
		return
	}
	answer := &flusher{bufio.NewWriter(w), http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/plain")
	l := &reader{path: filepath.Clean(path), file: file, ended: ended, out: newLineWriter(answer, options, time.Now())}
	defer func() { l.file.Close() }()
	// The client may wait long for the first line.
	err = answer.Flush()
	if err == nil {
		err = l.run(r.Context(), options.TailLines, options.Follow)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err = errors.Join(err, answer.Flush()); err != nil && r.Context().Err() == nil {
		s.config.Log.Debug("log not sent to its end", "path", path, "error", err)
	}
}

// logOptions reads what the API server asks for. Its container is in the path.
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{}
	var errs []error
	for name, set := range map[string]func(string) error{
		"follow":       boolean(&o.Follow),
		"previous":     boolean(&o.Previous),
		"timestamps":   boolean(&o.Timestamps),
		"sinceSeconds": number(&o.SinceSeconds),
		"tailLines":    number(&o.TailLines),
		"limitBytes":   number(&o.LimitBytes),
		"sinceTime": func(text string) error {
			since, err := time.Parse(time.RFC3339, text)
			o.SinceTime = &metav1.Time{Time: since}
			return err
		},
		"stream": func(text string) error {
			o.Stream = &text
			return nil
		},
	} {
		if !query.Has(name) {
			continue
		}
		if err := set(query.Get(name)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return o, errors.Join(errs...)
}

func boolean(value *bool) func(string) error {
	return func(text string) (err error) {
		*value, err = strconv.ParseBool(text)
		return err
	}
}

func number(value **int64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		*value = &n
		return err
	}
}

// flusher writes to a client.
type flusher struct {
	*bufio.Writer
	response *http.ResponseController
}

// Flush has what was written reach the client.
func (f *flusher) Flush() error {
	if err := f.Writer.Flush(); err != nil {
		return err
	}
	return f.response.Flush()
}

// reader reads a log, and follows it.
type reader struct {
	path  string
	file  *os.File
	from  *bufio.Reader
	ended <-chan struct{}
	out   *lineWriter
	// line is the beginning of one whose end is not written yet.
	line []byte
}

// run reads the last lines, or all if tail is nil, and what is written from then on
// if it follows.
func (l *reader) run(ctx context.Context, tail *int64, follow bool) error {
	if tail != nil {
		if err := seekTail(l.file, *tail); err != nil {
			return err
		}
	}
	l.from = bufio.NewReader(l.file)
	if !follow {
		return l.copy()
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch log: %w", err)
	}
	defer watcher.Close()
	// The directory tells of a new file in the place of this one, too.
	if err := watcher.Add(filepath.Dir(l.path)); err != nil {
		return fmt.Errorf("watch log: %w", err)
	}
	for last := false; ; {
		if err := l.copy(); err != nil || last {
			return err
		}
		if err := l.out.to.Flush(); err != nil {
			return err
		}
		if last, err = l.wait(ctx, watcher); err != nil {
			return err
		}
		if err := l.reopen(); err != nil {
			return err
		}
	}
}

// wait waits until there may be more, and tells whether that is all.
func (l *reader) wait(ctx context.Context, watcher *fsnotify.Watcher) (last bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-l.ended:
			return true, nil
		case err := <-watcher.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return false, err
			}
			return false, nil
		case event := <-watcher.Events:
			if event.Name == l.path {
				return false, nil
			}
		}
	}
}

// reopen goes on with the file that is now in the place of the one that was read,
// after what was written to that at last.
func (l *reader) reopen() error {
	present, err := os.Stat(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if read, err := l.file.Stat(); err != nil || os.SameFile(read, present) {
		return err
	}
	if err := l.copy(); err != nil {
		return err
	}
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	l.file.Close()
	l.file, l.line = file, nil
	l.from.Reset(file)
	return nil
}

// copy writes all lines that are in the file and were not read before.
func (l *reader) copy() error {
	for {
		part, err := l.from.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case err == nil:
			if err := l.out.write(l.line); err != nil {
				return err
			}
			l.line = l.line[:0]
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read log: %w", err)
		}
	}
}

// seekTail goes to the beginning of the last lines of a file.
func seekTail(file *os.File, lines int64) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || lines <= 0 {
		return err
	}
	block := make([]byte, 64<<10)
	for start := end; start > 0; {
		size := min(start, int64(len(block)))
		start -= size
		if _, err := file.ReadAt(block[:size], start); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		for at := bytes.LastIndexByte(block[:size], '\n'); at >= 0; at = bytes.LastIndexByte(block[:at], '\n') {
			if start+int64(at) == end-1 {
				continue // the end of the last line
			}
			if lines--; lines == 0 {
				_, err := file.Seek(start+int64(at)+1, io.SeekStart)
				return err
			}
		}
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}
