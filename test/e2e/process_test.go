package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// readyTimeout is how long an instance has to start.
const readyTimeout = 2 * time.Minute

// process is `linkerd-lite up` in a process of its own.
type process struct {
	dataDir string
	output  output
	cmd     *exec.Cmd
	// exited gets the end of the process.
	exited chan error
	info   datadir.RunInfo
}

// output is what a process writes; it can be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) Bytes() []byte { return []byte(o.String()) }

// said is what the instance has written so far.
func (p *process) said() string { return p.output.String() }

// launch starts `up` with random ports on a data directory.
func launch(t testing.TB, dataDir string, args ...string) *process {
	t.Helper()
	p := &process{dataDir: dataDir, exited: make(chan error, 1)}
	p.cmd = exec.Command("linkerd-lite", append([]string{"up", "--random-ports", "--data-dir", dataDir}, args...)...)
	state := t.TempDir()
	p.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.exited <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// wait waits until the instance is ready.
func (p *process) wait(t testing.TB) {
	t.Helper()
	deadline := time.After(readyTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !p.read(t) || !p.info.Ready {
		select {
		case err := <-p.exited:
			t.Fatalf("ended before it was ready: %v\n%s", err, p.output.Bytes())
		case <-deadline:
			t.Fatalf("not ready within %v\n%s", readyTimeout, p.output.Bytes())
		case <-tick.C:
		}
	}
}

// read reads what the instance says of itself, and returns false until there
// is something: a process that was killed leaves its own behind.
func (p *process) read(t testing.TB) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dataDir, "run.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		err = json.Unmarshal(data, &p.info)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.info.PID == p.cmd.Process.Pid
}

// stop ends the instance with a signal and returns how long that took.
func (p *process) stop(t testing.TB, sig syscall.Signal) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.exited:
		if err != nil && sig != syscall.SIGKILL {
			t.Errorf("after %v: %v\n%s", sig, err, p.output.Bytes())
		}
	case <-time.After(readyTimeout):
		t.Fatalf("still there %v after %v", readyTimeout, sig)
	}
	return time.Since(begin)
}

func (p *process) client(t testing.TB) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dataDir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return clientFor(t, config)
}

func clientFor(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
