package images

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

type fsReader = io.ReadCloser

// maxFiles bounds how many files an image has.
const maxFiles = 1_000_000

// unpack puts the files of all layers into a directory, which no path leaves.
func unpack(image v1.Image, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	stream := mutate.Extract(image)
	defer stream.Close()
	entries := tar.NewReader(stream)
	late := later{modes: map[string]fs.FileMode{}, links: map[string]string{}}
	for n := 0; ; n++ {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n == maxFiles {
			return fmt.Errorf("it has more than %d files", maxFiles)
		}
		if err := put(root, header, entries, late); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
	for name, to := range late.links {
		if err := errors.Join(replace(root, name), root.Link(to, name)); err != nil {
			return err
		}
	}
	for name, mode := range late.modes {
		if err := root.Chmod(name, mode); err != nil {
			return err
		}
	}
	return nil
}

// later is what is done when all files are there: a hard link may be to a file of a lower
// layer, which comes after it, and nothing can be put into a directory that may not be written.
type later struct {
	modes map[string]fs.FileMode
	links map[string]string
}

// put makes one file, or takes note of what is done later.
func put(root *os.Root, header *tar.Header, content io.Reader, late later) error {
	name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
	if name == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(header.Mode) & fs.ModePerm
	switch header.Typeflag {
	case tar.TypeDir:
		// The user has to be able to remove it.
		late.modes[name] = mode | 0o700
		return root.MkdirAll(name, 0o755)
	case tar.TypeReg:
		if err := replace(root, name); err != nil {
			return err
		}
		file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err = io.Copy(file, content); err == nil {
			err = file.Chmod(mode | 0o400)
		}
		return errors.Join(err, file.Close())
	case tar.TypeSymlink:
		if err := replace(root, name); err != nil {
			return err
		}
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		late.links[name] = strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")
	}
	return nil // devices and the like are not made
}

func replace(root *os.Root, name string) error {
	err := root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
