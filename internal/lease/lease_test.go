package lease_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
)

func TestLeaseIsHeldWhileLeadingAndGivenBack(t *testing.T) {
	client := fake.NewClientset()
	config := lease.Config{
		Client: client.CoordinationV1(), Namespace: "linkerd", Name: "write", Identity: "lite-1",
		Log: slog.New(slog.DiscardHandler),
	}
	holder := func() string {
		t.Helper()
		l, err := client.CoordinationV1().Leases("linkerd").Get(context.Background(), "write", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l.Spec.HolderIdentity == nil {
			return ""
		}
		return *l.Spec.HolderIdentity
	}
	ctx, cancel := context.WithCancel(t.Context())
	leading := make(chan struct{})
	during := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- lease.Run(ctx, config, func(ctx context.Context) error {
			close(leading)
			<-ctx.Done()
			during <- holder()
			return nil
		})
	}()
	<-leading
	cancel()
	if got := <-during; got != "lite-1" {
		t.Errorf("holder while the leader winds down: %q, want lite-1", got)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := holder(); got != "" {
		t.Errorf("holder after the end: %q, want nobody", got)
	}
}

// Whoever cannot renew stops leading before another may begin, and leads again
// once it can (policy-status 4).
func TestLeaseThatIsNotRenewedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var broken atomic.Bool
		client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), nil, errors.New("no connection")
		})
		var log bytes.Buffer
		config := lease.Config{
			Client: client.CoordinationV1(), Namespace: "linkerd", Name: "write", Identity: "lite-1",
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
		ctx, cancel := context.WithCancel(t.Context())
		began, ended := make(chan time.Time), make(chan time.Time)
		done := make(chan error, 1)
		go func() {
			done <- lease.Run(ctx, config, func(ctx context.Context) error {
				began <- time.Now()
				<-ctx.Done()
				ended <- time.Now()
				return ctx.Err()
			})
		}()
		<-began
		time.Sleep(2 * lease.Duration)
		select {
		case <-ended:
			t.Fatal("lost although it is renewed")
		default:
		}
		cut := time.Now()
		broken.Store(true)
		if after := (<-ended).Sub(cut); after >= lease.Duration {
			t.Errorf("still leading %v after the last renewal", after)
		}
		broken.Store(false)
		back := time.Now()
		if after := (<-began).Sub(back); after > lease.Duration {
			t.Errorf("leading again only after %v", after)
		}
		cancel()
		<-ended
		if err := <-done; err != nil {
			t.Error(err)
		}
		if won, lost := strings.Count(log.String(), "lease won"), strings.Count(log.String(), "lease lost"); won != 2 || lost != 1 {
			t.Errorf("won %d times and lost %d times in the log:\n%s", won, lost, &log)
		}
	})
}

// What makes the work impossible is not tried again.
func TestErrorOfTheLeaderEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		failure := errors.New("cannot work")
		err := lease.Run(t.Context(), lease.Config{
			Client: client.CoordinationV1(), Namespace: "linkerd", Name: "write", Identity: "lite-1",
			Log: slog.New(slog.DiscardHandler),
		}, func(context.Context) error { return failure })
		if !errors.Is(err, failure) {
			t.Errorf("Run returns %v", err)
		}
		l, err := client.CoordinationV1().Leases("linkerd").Get(t.Context(), "write", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if holder := l.Spec.HolderIdentity; holder != nil && *holder != "" {
			t.Errorf("the Lease is still held by %q", *holder)
		}
	})
}

// A crash leaves the Lease held; the same identity takes it back at once.
func TestSameIdentityTakesItsLeaseBack(t *testing.T) {
	client := fake.NewClientset()
	config := lease.Config{
		Client: client.CoordinationV1(), Namespace: "linkerd", Name: "write", Identity: "lite-1",
		Log: slog.New(slog.DiscardHandler),
	}
	for round := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		leading := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- lease.Run(ctx, config, func(ctx context.Context) error {
				close(leading)
				<-ctx.Done()
				return nil
			})
		}()
		<-leading
		if round == 0 {
			// What a killed process leaves behind: freeze the Lease as held.
			held, err := client.CoordinationV1().Leases("linkerd").Get(ctx, "write", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			<-done
			current, err := client.CoordinationV1().Leases("linkerd").Get(t.Context(), "write", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			current.Spec = held.Spec
			if _, err := client.CoordinationV1().Leases("linkerd").Update(t.Context(), current, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		cancel()
		<-done
	}
}
