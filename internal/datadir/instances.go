package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// instancesDir holds a symbolic link to the directory of each running instance.
func instancesDir() string { return filepath.Join(StateHome(), "instances") }

// Announce makes the directory findable by Instances until the returned
// function is called.
func (d *Dir) Announce() (withdraw func() error, err error) {
	dir := instancesDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("announcing the instance: %w", err)
	}
	link := filepath.Join(dir, hash(d.path))
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("announcing the instance: %w", err)
	}
	if err := os.Symlink(d.path, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("announcing the instance: %w", err)
	}
	return func() error {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("withdrawing the instance: %w", err)
		}
		return nil
	}, nil
}

// Instances returns the data directories of this user's running instances, sorted.
func Instances() []string {
	entries, _ := os.ReadDir(instancesDir())
	var running []string
	for _, e := range entries {
		link := filepath.Join(instancesDir(), e.Name())
		path, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if Running(path) {
			running = append(running, path)
		} else {
			// Left behind by a crash.
			os.Remove(link)
		}
	}
	slices.Sort(running)
	return running
}
