package containers

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// logFile has the output of one run of a container, in the format of the container
// runtime interface: a line is TIME STREAM F|P TEXT, with P where it goes on in the next.
type logFile struct {
	mu   sync.Mutex
	file *os.File
	now  func() time.Time
}

// longestLine is cut into pieces, in bytes.
const longestLine = 16 << 10

func logPath(dir, container string, restarts int32) string {
	return filepath.Join(dir, "logs", container, strconv.Itoa(int(restarts))+".log")
}

func createLog(path string, now func() time.Time) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	return &logFile{file: file, now: now}, err
}

// copy writes what comes from a stream until it ends, and shows it to each of others.
func (l *logFile) copy(stream string, from io.Reader, others *audience) error {
	lines := bufio.NewReaderSize(from, longestLine)
	for {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			others.show(stream, line)
			if err := l.write(stream, line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull), err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EIO): // the last of a terminal
			return nil
		default:
			return err
		}
	}
}

func (l *logFile) write(stream string, line []byte) error {
	tag := " P "
	if line[len(line)-1] == '\n' {
		tag = " F "
	}
	entry := make([]byte, 0, len(line)+64)
	entry = l.now().UTC().AppendFormat(entry, time.RFC3339Nano)
	entry = append(entry, ' ')
	entry = append(entry, stream...)
	entry = append(entry, tag...)
	entry = append(entry, line...)
	if tag == " P " {
		entry = append(entry, '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Write(entry)
	return err
}

func (l *logFile) close() { l.file.Close() }

// audience are those who look at a container's output as it comes (kubectl attach).
type audience struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	first    chan struct{} // closed once somebody has joined
}

// there is closed once somebody has joined.
func (a *audience) there() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = make(chan struct{})
	}
	return a.first
}

type watcher struct{ out, errOut io.Writer }

func (a *audience) join(w *watcher) (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watchers == nil {
		a.watchers = map[*watcher]bool{}
	}
	a.watchers[w] = true
	if a.first == nil {
		a.first = make(chan struct{})
	}
	if !closed(a.first) {
		close(a.first)
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, w)
	}
}

func (a *audience) show(stream string, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watchers {
		to := w.out
		if stream == "stderr" {
			to = w.errOut
		}
		if to == nil {
			continue
		}
		if _, err := to.Write(data); err != nil {
			delete(a.watchers, w)
		}
	}
}
