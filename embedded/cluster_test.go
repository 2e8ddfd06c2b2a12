package embedded

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

const (
	instanceStart = time.Minute
	// leakWait is how long goroutines have to end; etcd lets requests run for 7 s.
	leakWait = 10 * time.Second
)

// running is an instance in the test's process.
type running struct {
	*Cluster
	stop  context.CancelFunc
	ended chan error
}

func startRunning(t *testing.T, without ...string) *running {
	t.Helper()
	r := newRunning(t, without...)
	r.start()
	return r
}

// newRunning makes an instance that does not run yet.
func newRunning(t *testing.T, without ...string) *running {
	t.Helper()
	return newRunningOf(t, Config{Without: without})
}

// newRunningOf is newRunning of a cluster that is without some parts, and has
// something called before its views.
func newRunningOf(t *testing.T, special Config) *running {
	t.Helper()
	config := DefaultConfig()
	config.Ephemeral, config.ControlPlane.Addresses.Random, config.Without = true, true, special.Without
	config.Log, config.Out, config.beforeView = slog.New(slog.DiscardHandler), io.Discard, special.beforeView
	klog.SetSlogLogger(config.Log)
	c, err := New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &running{Cluster: c, ended: make(chan error, 1)}
}

func (r *running) start() {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() { r.ended <- r.Run(ctx) }()
}

func (r *running) wait(t *testing.T) kubernetes.Interface {
	t.Helper()
	select {
	case <-r.Ready():
	case err := <-r.ended:
		t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(instanceStart):
		t.Fatalf("not ready after %v: %v", instanceStart, r.supervisor.Status())
	}
	client, err := kubernetes.NewForConfig(r.client)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Instances in one process start and stop without regard to each
// other, keep what they hold to themselves, and leave no goroutine.
func TestInstancesInOneProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("starts clusters")
	}
	rulebook.Covers(t, "B50, B51")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	warm := startRunning(t)
	warm.wait(t)
	warm.end(t)
	before := goleak.IgnoreCurrent()

	first, second := startRunning(t), startRunning(t)
	clients := []kubernetes.Interface{first.wait(t), second.wait(t)}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if _, err := clients[0].CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := clients[1].CoreV1().ConfigMaps("default").Get(t.Context(), "mine", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other instance has the object, too: %v", err)
	}
	first.end(t)
	third := startRunning(t)
	clients[0] = third.wait(t)
	for n, client := range clients {
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Errorf("after a stop and a start, instance %d: %v", n, err)
		}
	}
	third.end(t)
	second.end(t)

	deadline := time.Now().Add(leakWait)
	for {
		err := goleak.Find(before)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines: %v", runtime.NumGoroutine(), err)
		}
	}
}

// A shim that dies ends the process: /ready says so first, and the last line
// names it.
func TestShimDies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := startRunning(t, PartControllers, PartKubelet, PartInjector)
	defer func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}()
	i.wait(t)
	// ready is the status of /ready, 0 when nobody answers.
	ready := func() int {
		response, err := http.Get("http://" + i.info.Addresses["admin"] + "/ready")
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Fatalf("/ready has status %d before anything happens", got)
	}
	i.listeners["destination"].Close()
	said := ready()
	for said == http.StatusOK {
		said = ready()
	}
	if said != http.StatusInternalServerError {
		t.Errorf("/ready has status %d while all stops, want 500", said)
	}
	if err := <-i.ended; err == nil || !strings.HasPrefix(err.Error(), "controlplane: proxy shim: port 8086: ") {
		t.Errorf("the last line is %v", err)
	}
}
