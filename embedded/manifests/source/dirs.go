package source

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckDirs says what is wrong with directories that are to be watched, before
// anything is started for them.
func CheckDirs(dirs []string) error {
	for n, dir := range dirs {
		for _, other := range dirs[:n] {
			if filepath.Clean(other) == filepath.Clean(dir) {
				return fmt.Errorf("manifest directory %s: named twice", dir)
			}
		}
		if dir == stdin {
			continue
		}
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("manifest directory %s: %s", dir, reason(err))
		}
		if !info.IsDir() && !isManifest(info.Name()) {
			return fmt.Errorf("manifest directory %s: neither a directory nor a .yaml, .yml or .json file", dir)
		}
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("manifest directory %s: %s", dir, reason(err))
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("manifest directory %s: %s", dir, reason(err))
		}
	}
	return nil
}

// absolute makes roots of paths as the user named them.
func absolute(paths []string) ([]root, error) {
	roots := make([]root, 0, len(paths))
	for _, path := range paths {
		if path == stdin {
			roots = append(roots, root{shown: StdinShown, abs: stdin})
			continue
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("manifest directory %s: %w", path, err)
		}
		roots = append(roots, root{shown: filepath.Clean(path), abs: abs})
	}
	return roots, nil
}
