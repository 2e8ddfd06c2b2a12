package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// resolve follows a path as a process would whose root is root: links cannot
// lead out of it. It returns what exists of it, and the rest, which does not.
func resolve(root, path string) (existing, rest string, err error) {
	left := strings.Split(strings.Trim(filepath.Clean("/"+path), "/"), "/")
	at := "/" // below root
	for links := 0; len(left) > 0; {
		name := left[0]
		left = left[1:]
		next := filepath.Join(at, name) // never above "/"
		info, err := os.Lstat(filepath.Join(root, next))
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Join(root, at), filepath.Join(append([]string{name}, left...)...), nil
		}
		if err != nil {
			return "", "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", "", unix.ELOOP
		}
		to, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			return "", "", err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(strings.Trim(to, "/"), "/"), left...)
	}
	return filepath.Join(root, at), "", nil
}
