package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// temporaryPrefix starts the names of the directories that OpenTemporary makes.
const temporaryPrefix = "linkerd-lite-ephemeral-"

// StateHome is $XDG_STATE_HOME/linkerd-lite, with the usual default; without a
// home directory it is one under the temporary directory that belongs to the user.
func StateHome() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "linkerd-lite")
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		return filepath.Join(home, ".local", "state", "linkerd-lite")
	}
	return temporaryHome()
}

// Default is the data directory for a set of manifest directories. It differs
// for different sets, so that two never prune each other.
func Default(dirs []string) (string, error) {
	if len(dirs) == 0 {
		return filepath.Join(StateHome(), "default"), nil
	}
	absolute := make([]string, len(dirs))
	for i, dir := range dirs {
		path, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		absolute[i] = path
	}
	base := filepath.Base(absolute[0])
	slices.Sort(absolute)
	return filepath.Join(StateHome(), base+"-"+hash(strings.Join(absolute, "\x00"))), nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// OpenTemporary makes a directory that Close removes. It also removes those
// that crashed processes of this user left behind, and returns their paths.
func OpenTemporary(ctx context.Context) (dir *Dir, removed []string, err error) {
	removed = sweep(ctx)
	path, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return nil, removed, fmt.Errorf("making a temporary data directory: %w", err)
	}
	dir, err = Open(ctx, path)
	if err != nil {
		return nil, removed, errors.Join(err, os.RemoveAll(path))
	}
	dir.temporary = true
	return dir, removed, nil
}

// sweep removes temporary directories whose process is gone.
func sweep(ctx context.Context) (removed []string) {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	for _, path := range paths {
		if !ownedByUs(path) || Running(path) {
			continue
		}
		// A directory without a version was made a moment ago.
		if _, err := os.Stat(filepath.Join(path, versionFile)); err != nil {
			continue
		}
		lock, err := takeLock(ctx, path)
		if err != nil {
			continue
		}
		if os.RemoveAll(path) == nil {
			removed = append(removed, path)
		}
		lock.Close()
	}
	return removed
}

func ownedByUs(path string) bool {
	var stat unix.Stat_t
	err := unix.Lstat(path, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR && int(stat.Uid) == os.Getuid()
}

// Running says whether a process holds the lock of a data directory.
func Running(path string) bool {
	f, err := os.Open(filepath.Join(path, lockFile))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// PID is the process that holds the lock of a running directory.
func PID(path string) int { return readPID(path) }

// SocketPath is where a unix socket of this directory lives: in it, or, where
// that path would be longer than limit bytes, in a directory of mode 0700
// under the temporary one.
func (d *Dir) SocketPath(name string, limit int) (string, error) {
	if path := filepath.Join(d.path, name); len(path) <= limit {
		return path, nil
	}
	for _, base := range []string{os.TempDir(), "/tmp"} {
		dir := filepath.Join(base, fmt.Sprintf("linkerd-lite-%d", os.Getuid()))
		path := filepath.Join(dir, hash(d.path)+"-"+name)
		if len(path) > limit {
			continue
		}
		if err := makeShared(dir); err != nil {
			return "", fmt.Errorf("making a directory for a socket: %w", err)
		}
		return path, nil
	}
	return "", fmt.Errorf("no place for a socket: the paths of %s and of the temporary directory are longer than %d bytes", d.path, limit)
}
