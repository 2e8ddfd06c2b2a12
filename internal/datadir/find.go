package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvVar names the data directory for commands that COMMAND runs.
const EnvVar = "LINKERD_LITE_DATA_DIR"

// ErrNotRunning says that there is no instance to talk to.
var ErrNotRunning = errors.New("nothing is running")

// Find finds the instance that a command means: that of --data-dir, that
// of LINKERD_LITE_DATA_DIR, or the only one that runs.
func Find(dataDir string) (*RunInfo, error) {
	if dataDir == "" {
		dataDir = os.Getenv(EnvVar)
	}
	if dataDir == "" {
		running := Instances()
		switch len(running) {
		case 0:
			return nil, fmt.Errorf("%w: start an instance with `linkerd-lite up DIR`, or name one with --data-dir", ErrNotRunning)
		case 1:
			dataDir = running[0]
		default:
			return nil, fmt.Errorf("%d instances are running; choose one with --data-dir:\n  %s", len(running), strings.Join(running, "\n  "))
		}
	}
	if !Running(dataDir) {
		return nil, fmt.Errorf("%w in data directory %s", ErrNotRunning, dataDir)
	}
	return ReadRunInfo(filepath.Join(dataDir, RunFileName))
}
