package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Path is a PATH for processes on which this program comes first.
func Path() string {
	path := os.Getenv("PATH")
	self, err := os.Executable()
	switch {
	case err != nil:
		return path
	case path == "":
		return filepath.Dir(self)
	}
	return filepath.Dir(self) + string(os.PathListSeparator) + path
}

// Look finds a command on that PATH.
func Look(name string) (string, error) {
	if strings.ContainsRune(name, os.PathSeparator) {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(Path()) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: not found on the PATH", name)
}
