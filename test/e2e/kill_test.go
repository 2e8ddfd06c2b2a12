package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	killWriters = 4
	// killWithin is the time from the start of a process within which it is killed.
	killWithin = 6 * time.Second
)

// ledger is what the API server acknowledged: the newest value by name, 0 for deleted.
type ledger struct {
	mu     sync.Mutex
	values map[string]int
}

func (l *ledger) acknowledge(name string, value int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.values[name] = value
}

// Invariant 6: what the API server acknowledged is there after kill -9 at any
// moment, of the start or of later work, and the next start needs no help.
// E2E_KILLS is the number of rounds.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts clusters")
	}
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv("E2E_KILLS")); err == nil {
		rounds = n
	}
	dataDir := filepath.Join(t.TempDir(), "d")
	acknowledged := &ledger{values: map[string]int{}}
	for round := range rounds {
		p := launch(t, dataDir)
		moment := rand.N(killWithin)
		kill := time.AfterFunc(moment, func() { _ = p.cmd.Process.Kill() })
		wrote := writeUntilDeath(t, p, round, acknowledged)
		<-p.exited
		kill.Stop()
		t.Logf("round %d: killed after %v, %d writes acknowledged", round, moment.Round(time.Millisecond), wrote)
	}
	p := launch(t, dataDir)
	p.wait(t)
	check(t, p.client(t), acknowledged)
	p.stop(t, syscall.SIGTERM)
	t.Logf("%d objects after %d kills", len(acknowledged.values), rounds)
}

// writeUntilDeath creates, updates and deletes objects from the moment at which
// there is a kubeconfig until the process is gone, and returns the number of
// acknowledged writes.
func writeUntilDeath(t *testing.T, p *process, round int, acknowledged *ledger) (wrote int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		err := <-p.exited
		cancel()
		close(gone)
		p.exited <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(p.dataDir, "kubeconfig")); err == nil && p.read(t) {
			break
		}
		select {
		case <-gone:
			return 0
		case <-time.After(10 * time.Millisecond):
		}
	}
	client := p.client(t)
	var wait sync.WaitGroup
	counts := make([]int, killWriters)
	for w := range killWriters {
		wait.Go(func() {
			prefix := fmt.Sprintf("r%d-w%d", round, w)
			counts[w] = writeObjects(ctx, client, prefix, acknowledged)
		})
	}
	wait.Wait()
	for _, n := range counts {
		wrote += n
	}
	return wrote
}

// writeObjects makes objects, changes the one before and deletes every fourth, until ctx ends.
func writeObjects(ctx context.Context, client kubernetes.Interface, prefix string, acknowledged *ledger) (wrote int) {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	object := func(n, value int) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n)},
			Data:       map[string]string{"value": strconv.Itoa(value)},
		}
	}
	done := func(err error, name string, value int) {
		if err == nil {
			acknowledged.acknowledge(name, value)
			wrote++
		}
	}
	for n := 0; ctx.Err() == nil; n++ {
		created := object(n, 1)
		if _, err := maps.Create(ctx, created, metav1.CreateOptions{}); err != nil {
			continue // not up yet, or gone: the name is not used again
		}
		done(nil, created.Name, 1)
		if n%4 == 3 {
			// Unacknowledged, it may have happened or not: then it is not looked at.
			acknowledged.forget(created.Name)
			done(maps.Delete(ctx, created.Name, metav1.DeleteOptions{}), created.Name, 0)
			continue
		}
		_, err := maps.Update(ctx, object(n, 2), metav1.UpdateOptions{})
		done(err, created.Name, 2)
	}
	return wrote
}

func (l *ledger) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.values, name)
}

// check compares the cluster with what was acknowledged.
func check(t *testing.T, client kubernetes.Interface, acknowledged *ledger) {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	for name, want := range acknowledged.values {
		object, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if want == 0 {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s was deleted and is back: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s is lost: %v", name, err)
			continue
		}
		// An update whose answer did not arrive may have been made.
		if got, _ := strconv.Atoi(object.Data["value"]); got < want {
			t.Errorf("%s has value %d, %d was acknowledged", name, got, want)
		}
	}
}
