package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// dataDirEnv names the data directory for commands that COMMAND runs.
const dataDirEnv = "LINKERD_LITE_DATA_DIR"

// errNotRunning says that there is no instance to talk to.
var errNotRunning = errors.New("nothing is running")

// findInstance finds the instance that a command means: that of --data-dir, that
// of LINKERD_LITE_DATA_DIR, or the only one that runs.
func findInstance(dataDir string) (*RunInfo, error) {
	if dataDir == "" {
		dataDir = os.Getenv(dataDirEnv)
	}
	if dataDir == "" {
		running := datadir.Instances()
		switch len(running) {
		case 0:
			return nil, fmt.Errorf("%w: start an instance with `linkerd-lite up DIR`, or name one with --data-dir", errNotRunning)
		case 1:
			dataDir = running[0]
		default:
			return nil, fmt.Errorf("%d instances are running; choose one with --data-dir:\n  %s", len(running), strings.Join(running, "\n  "))
		}
	}
	if !datadir.Running(dataDir) {
		return nil, fmt.Errorf("%w in data directory %s", errNotRunning, dataDir)
	}
	return readRunInfo(filepath.Join(dataDir, datadir.RunFileName))
}
