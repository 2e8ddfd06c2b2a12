package e2e

import (
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// instance is a running `up`, which ends with the test.
type instance struct {
	t    *testing.T
	info datadir.RunInfo
	log  *output
	stop func()
}

// startInstance starts the program with these flags and waits until it is ready.
func startInstance(t *testing.T, flags ...string) *instance {
	t.Helper()
	p := launch(t, t.TempDir(), append([]string{"--unsafe-no-fsync"}, flags...)...)
	p.wait(t)
	i := &instance{t: t, info: p.info, log: &p.output}
	i.stop = sync.OnceFunc(func() { p.stop(t, syscall.SIGTERM) })
	t.Cleanup(i.stop)
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
