package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// private is the mode of every directory of ours.
const private = 0o700

// makePrivate makes a directory that only its owner can enter, whatever the
// umask, or makes an existing one so. One of somebody else's is refused, unless
// we are root: what lies in it is trusted.
func makePrivate(path string) error {
	if err := os.MkdirAll(path, private); err != nil {
		return err
	}
	return checkPrivate(path, os.Stat, os.Getuid() == 0)
}

// makeShared is makePrivate for a directory whose name others can guess, in a
// place in which they can make files: it must be neither theirs nor a link.
func makeShared(path string) error {
	if err := os.Mkdir(path, private); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkPrivate(path, os.Lstat, false)
}

func checkPrivate(path string, stat func(string) (fs.FileInfo, error), anyOwner bool) error {
	info, err := stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory but %s", path, info.Mode().Type())
	}
	if owner, ok := ownerOf(path); ok && owner != os.Getuid() && !anyOwner {
		return fmt.Errorf("%s belongs to user %d, and not to you (%d): choose another place", path, owner, os.Getuid())
	}
	if info.Mode().Perm() == private {
		return nil
	}
	if err := os.Chmod(path, private); err != nil {
		return fmt.Errorf("%s has mode %#o instead of %#o: %w", path, info.Mode().Perm(), private, err)
	}
	return nil
}

func ownerOf(path string) (int, bool) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, false
	}
	return int(stat.Uid), true
}

// temporaryHome takes the place of a home directory. It lies where others can
// write, under a name that they can guess.
func temporaryHome() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("linkerd-lite-%d", os.Getuid()))
}

// makeBelow is makePrivate for a path that may lie in temporaryHome.
func makeBelow(path string) error {
	if home := temporaryHome(); path == home || strings.HasPrefix(path, home+string(filepath.Separator)) {
		if err := makeShared(home); err != nil {
			return err
		}
	}
	return makePrivate(path)
}
