package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// FormatVersion is the version of the layout that this program reads and writes.
const FormatVersion = 1

// lockWait is how long Open waits for a holder that may be on its way out.
const lockWait = time.Second

// The files of a data directory.
const (
	lockFile    = "lock"
	versionFile = "version"
	// RunFileName is that of the description of the running instance.
	RunFileName    = "run.json"
	kubeconfigFile = "kubeconfig"
	etcdDir        = "etcd"
	keysDir        = "keys"
)

// Dir is a data directory that this process has locked.
type Dir struct {
	path      string
	lock      *os.File
	temporary bool
	// New says that the directory was empty when it was opened.
	New bool
	// Crashed says that the last process did not close it.
	Crashed bool
}

// LockedError says that another process uses the directory.
type LockedError struct {
	Path string
	// PID of the holder, 0 when it cannot be read.
	PID int
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s", e.Path, holder)
}

// Open creates the directory if needed (mode 0700), takes its lock and checks
// its version. It fails within two seconds when another process has the lock.
func Open(ctx context.Context, path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		if err := makeBelow(path); err != nil {
			return nil, fmt.Errorf("creating the data directory: %w; --data-dir or XDG_STATE_HOME name another place", err)
		}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("reading the data directory: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) > 0 && !slices.Contains(names, versionFile) && !slices.Equal(names, []string{lockFile}) {
		return nil, fmt.Errorf("%s is not a data directory of linkerd-lite: it has no file %q but holds %q; choose an empty or a new one", path, versionFile, names[0])
	}
	// Only now is it known to be ours, or empty.
	if err := makeBelow(path); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := takeLock(ctx, path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	if err := d.checkVersion(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if _, err := os.Stat(d.RunFile()); err == nil {
		d.Crashed = true
		if err := d.removeRunFiles(); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

func takeLock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data directory: %w", err)
	}
	deadline := time.Now().Add(lockWait)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && !isAt(f, filepath.Join(path, lockFile)) {
			// It was removed in between, and whoever comes next locks another.
			f.Close()
			return takeLock(ctx, path)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking the data directory %s: %w", path, err)
		}
		if time.Now().After(deadline) {
			pid := readPID(path)
			f.Close()
			return nil, &LockedError{Path: path, PID: pid}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("writing the lock of the data directory: %w", err)
		}
	}
	return f, nil
}

func readPID(path string) int {
	data, err := os.ReadFile(filepath.Join(path, lockFile))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

func (d *Dir) checkVersion() error {
	file := filepath.Join(d.path, versionFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		d.New = true
		return WriteFile(file, []byte(strconv.Itoa(FormatVersion)+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("reading the version of the data directory: %w", err)
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("%s holds %q, which is no version", file, strings.TrimSpace(string(data)))
	}
	if version != FormatVersion {
		return fmt.Errorf("data directory %s has format version %d, this program reads %d: use another --data-dir, or remove this one", d.path, version, FormatVersion)
	}
	return nil
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// EtcdDir is where etcd keeps its data.
func (d *Dir) EtcdDir() string { return filepath.Join(d.path, etcdDir) }

// KeysDir is where keys and certificates live that outlast a run.
func (d *Dir) KeysDir() string { return filepath.Join(d.path, keysDir) }

// RunFile describes the running instance to other programs.
func (d *Dir) RunFile() string { return filepath.Join(d.path, RunFileName) }

// Kubeconfig is the path of the kubeconfig of the running instance.
func (d *Dir) Kubeconfig() string { return filepath.Join(d.path, kubeconfigFile) }

// portFile has the port of the API server, so that kubeconfigs which others have
// copied are good for the next run too.
const portFile = "api-port"

// APIPort is the port that the API server had in the last run, 0 if there is none.
func (d *Dir) APIPort() uint16 {
	data, err := os.ReadFile(filepath.Join(d.path, portFile))
	if err != nil {
		return 0
	}
	port, _ := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 16)
	return uint16(port)
}

// SetAPIPort keeps the port of the API server for the next run.
func (d *Dir) SetAPIPort(port uint16) error {
	return WriteFile(filepath.Join(d.path, portFile), []byte(strconv.Itoa(int(port))+"\n"), 0o600)
}

func (d *Dir) removeRunFiles() error {
	var errs []error
	for _, file := range []string{d.RunFile(), d.Kubeconfig()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing what was written for a run: %w", err))
		}
	}
	return errors.Join(errs...)
}

// isAt says whether path leads to the open file.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(open, found)
}

// guardPeriod is how often Guard looks.
const guardPeriod = time.Second

// GoneError says that a data directory is not there any more, or is another one.
type GoneError struct{ Path string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("data directory %s was removed or replaced while in use: what is written now would be lost", e.Path)
}

// Guard returns a GoneError once the directory is not the one that was opened:
// the lock keeps nobody from making another in its place. It returns nil when ctx ends.
func (d *Dir) Guard(ctx context.Context) error {
	lock := d.lock
	ticker := time.NewTicker(guardPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !isAt(lock, filepath.Join(d.path, lockFile)) {
				return &GoneError{d.path}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Close removes what was written for this run (B55), a temporary directory
// altogether, and gives the lock back. What another process has made in its place
// stays. Calling it again is harmless.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	var err error
	switch {
	case !isAt(d.lock, filepath.Join(d.path, lockFile)):
	case d.temporary:
		err = os.RemoveAll(d.path)
	default:
		err = d.removeRunFiles()
	}
	err = errors.Join(err, d.lock.Close())
	d.lock = nil
	return err
}

// WriteFile replaces a file in one step, so that readers see the old or the
// new content.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
