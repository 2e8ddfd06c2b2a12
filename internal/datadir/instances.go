package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// instancesDirs hold a symbolic link to the directory of each running instance.
// The second is for those who cannot write into the first.
func instancesDirs() []string {
	return []string{filepath.Join(StateHome(), "instances"), filepath.Join(temporaryHome(), "instances")}
}

// Announce makes the directory findable by Instances until the returned
// function is called.
func (d *Dir) Announce() (withdraw func() error, err error) {
	var errs []error
	for _, dir := range instancesDirs() {
		link, err := d.announceIn(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return func() error {
			if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("withdrawing the instance: %w", err)
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("announcing the instance: %w; XDG_STATE_HOME names another place", errors.Join(errs...))
}

func (d *Dir) announceIn(dir string) (link string, err error) {
	if err := makeBelow(dir); err != nil {
		return "", err
	}
	link = filepath.Join(dir, hash(d.path))
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.Symlink(d.path, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

// Instances returns the data directories of this user's running instances, sorted.
func Instances() []string {
	var running []string
	for _, dir := range instancesDirs() {
		if !ownedByUs(dir) {
			continue // others may tell anything
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			link := filepath.Join(dir, e.Name())
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
	}
	slices.Sort(running)
	return slices.Compact(running)
}
