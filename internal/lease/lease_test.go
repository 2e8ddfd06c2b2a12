package lease_test

import (
	"context"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

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
