package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// changeRoot makes a directory the root of this thread, with the file systems that
// programs expect and the given mounts.
func changeRoot(root string, mounts []Mount) error {
	if err := unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", root, err)
	}
	system := []Mount{{Source: "/proc", Target: "/proc"}, {Source: "/sys", Target: "/sys", ReadOnly: true}, {Target: "/dev"}, {Target: "/dev/shm"}, {Target: "/dev/pts"}}
	for _, device := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		system = append(system, Mount{Source: "/dev/" + device, Target: "/dev/" + device})
	}
	for _, mount := range append(system, mounts...) {
		if err := mount.make(root, create); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, filepath.Join(root, "dev", name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return goTo(root)
}

// goTo makes a mounted directory the root of this thread.
func goTo(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	// The old root is put over the new one, and taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

// overlay is a directory with what is in root, and takes what is written there
// into scratch.
func overlay(root, scratch string) (string, error) {
	merged := filepath.Join(scratch, "merged")
	for _, dir := range []string{merged, filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work,userxattr", root, scratch, scratch)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("mount %s to be written to: %w", root, err)
	}
	return merged, nil
}

// make mounts below a root. A target that does not exist is provided by missing.
func (m Mount) make(root string, missing func(path string, isDir bool) error) error {
	target, err := m.place(root, missing)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", m.Target, err)
	}
	if m.Source == "" {
		err = unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
	} else {
		err = unix.Mount(m.Source, target, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
	}
	if !m.ReadOnly {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make %s read-only: %w", m.Target, err)
	}
	return nil
}

// place is the path of the mount's target below root, which exists then: a
// directory, or a file if the source is one. Links that lead out of the root do not.
func (m Mount) place(root string, missing func(path string, isDir bool) error) (string, error) {
	isDir := true
	if m.Source != "" {
		info, err := os.Stat(m.Source)
		if err != nil {
			return "", err
		}
		isDir = info.IsDir()
	}
	target, rest, err := resolve(root, m.Target)
	if err != nil || rest == "" {
		return target, err
	}
	path := filepath.Join(target, rest)
	return path, missing(path, isDir)
}

// createAside is create where the files are the machine's: what is missing comes to be in
// another directory, which is seen in the place of the deepest that there is, and by nobody else.
func createAside(path string, isDir bool) error {
	existing := filepath.Dir(path)
	for {
		if _, err := os.Stat(existing); err == nil {
			break
		}
		existing = filepath.Dir(existing)
	}
	if err := imitate(existing); err != nil {
		return fmt.Errorf("imitate %s: %w", existing, err)
	}
	return create(path, isDir)
}

// create makes a directory, or a file and the directories that lead to it.
func create(path string, isDir bool) error {
	if isDir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// imitate puts a new directory in memory over one, in which everything is that was in it.
func imitate(directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	var files []*os.File
	defer func() { closeAll(files) }()
	trees := map[string]*os.File{}
	links := map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(directory, entry.Name())
		if entry.Type()&fs.ModeSymlink != 0 {
			if links[entry.Name()], err = os.Readlink(path); err != nil {
				return err
			}
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		files = append(files, os.NewFile(uintptr(fd), path))
		trees[entry.Name()] = files[len(files)-1]
	}
	// The root cannot be covered: it is built somewhere else, and gone to.
	at := directory
	if directory == "/" {
		at = "/proc"
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
			return err
		}
	}
	for _, entry := range entries {
		tree := trees[entry.Name()]
		if tree == nil {
			continue
		}
		target := filepath.Join(at, entry.Name())
		if err := create(target, entry.IsDir()); err != nil {
			return err
		}
		if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	if directory == "/" {
		return goTo(at)
	}
	return nil
}
