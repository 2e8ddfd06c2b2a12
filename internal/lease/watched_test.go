package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/linkerd-lite/linkerd-lite/internal/lease"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// A Lease that cannot be read or written is a problem, with what is not done for that
// reason; it goes when the Lease can be kept again, and another holder is none.
func TestLeaseThatCannotBeKept(t *testing.T) {
	rulebook.Covers(t, "F6")
	const cannot = "Lease linkerd/write: cannot be kept: no room; until it can, nothing is written"
	for _, test := range []struct {
		name string
		verb string
		// held is the Lease that is there at the start.
		held *coordinationv1.LeaseSpec
		want string
	}{
		{"it cannot be created", "create", nil, cannot},
		{"it cannot be read", "get", nil, cannot},
		{"it cannot be taken", "update", &coordinationv1.LeaseSpec{}, cannot},
		{"somebody else has it", "update", &coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("other"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()},
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				if test.held != nil {
					held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: "write"}, Spec: *test.held}
					if err := client.Tracker().Add(held); err != nil {
						t.Fatal(err)
					}
				}
				var broken atomic.Bool
				broken.Store(true)
				client.PrependReactor(test.verb, "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return broken.Load(), nil, errors.New("no room")
				})
				table, err := problems.New(problems.Config{})
				if err != nil {
					t.Fatal(err)
				}
				said := func() string {
					all := table.List()
					if len(all) == 0 {
						return ""
					}
					return all[0].String()
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- lease.Run(ctx, lease.Config{
						Client: client.CoordinationV1(), Namespace: "linkerd", Name: "write", Identity: "lite-1",
						Log: slog.New(slog.DiscardHandler), Problems: table, Work: "nothing is written",
					}, func(ctx context.Context) error { <-ctx.Done(); return nil })
				}()
				time.Sleep(2 * lease.Duration)
				synctest.Wait()
				if got := said(); got != test.want {
					t.Errorf("while it fails: %q, want %q", got, test.want)
				}
				broken.Store(false)
				time.Sleep(2 * lease.Duration)
				synctest.Wait()
				if got := said(); got != "" {
					t.Errorf("afterwards: %q", got)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
