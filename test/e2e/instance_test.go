package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"syscall"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/cmd/linkerd-lite/app"
)

// instance is a running `up`, which ends with the test.
type instance struct {
	t    *testing.T
	info app.RunInfo
	log  *bytes.Buffer
	stop func()
}

// startInstance starts the program with these flags and waits until it is ready.
func startInstance(t *testing.T, flags ...string) *instance {
	t.Helper()
	args := append([]string{"up", "--random-ports", "--unsafe-no-fsync", "--output=json", "--data-dir", t.TempDir()}, flags...)
	cmd := exec.Command("linkerd-lite", args...)
	i := &instance{t: t, log: &bytes.Buffer{}}
	cmd.Stderr = i.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	i.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("up: %v\n%s", err, i.log)
		}
	}
	t.Cleanup(i.stop)
	if err := json.NewDecoder(stdout).Decode(&i.info); err != nil {
		t.Fatalf("up did not become ready: %v\n%s", err, i.log)
	}
	return i
}

// metrics is what the admin address says at /metrics.
func (i *instance) metrics() string {
	i.t.Helper()
	response, err := http.Get("http://" + i.info.Addresses["admin"] + "/metrics")
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		i.t.Fatalf("metrics: %s\n%s", response.Status, body)
	}
	return string(body)
}
