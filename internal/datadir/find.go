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

// errSeveral says that a choice is needed.
type errSeveral struct{ running []*RunInfo }

func (e errSeveral) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d instances are running; choose one with --data-dir:", len(e.running))
	for _, info := range e.running {
		text.WriteString("\n  " + info.DataDir)
		if len(info.Dirs) > 0 {
			text.WriteString("  (" + strings.Join(info.Dirs, ", ") + ")")
		}
	}
	return text.String()
}

// IsAmbiguous says whether Find failed because several instances run.
func IsAmbiguous(err error) bool { return errors.As(err, new(errSeveral)) }

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
			return nil, errSeveral{List()}
		}
	}
	if !Running(dataDir) {
		return nil, fmt.Errorf("%w in data directory %s", ErrNotRunning, dataDir)
	}
	return ReadRunInfo(filepath.Join(dataDir, RunFileName))
}

// List describes the instances that run; of one that has just begun only the
// process and the directory are known.
func List() []*RunInfo {
	running := []*RunInfo{}
	for _, path := range Instances() {
		info, err := ReadRunInfo(filepath.Join(path, RunFileName))
		if err != nil {
			info = &RunInfo{PID: PID(path), DataDir: path}
		}
		running = append(running, info)
	}
	return running
}
