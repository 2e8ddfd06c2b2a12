package lease

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// patience is how many attempts in a row may fail before it is told: the next one is only
// a retryPeriod away.
const patience = 2

// watchedLock tells of a Lease that cannot be read or written. An elector only tries on then, so
// that nothing is written by its holder, in silence. An elector uses it from one goroutine.
type watchedLock struct {
	resourcelock.Interface
	config Config
	failed int
}

// Get begins an attempt, unless it is that of a holder to renew what it knows.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err): // it is created next
	case err != nil:
		l.tell(ctx, err)
	case record.HolderIdentity != l.config.Identity && record.HolderIdentity != "":
		l.tell(ctx, nil) // another holder has it, which is no fault
	}
	return record, raw, err
}

// Create is the first write.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.tell(ctx, err)
	return err
}

// Update renews, takes or gives back.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	l.tell(ctx, err)
	return err
}

func (l *watchedLock) tell(ctx context.Context, err error) {
	object := problems.ObjectOf(coordinationv1.SchemeGroupVersion.WithKind("Lease"), l.config.Namespace, l.config.Name)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return // the end, or somebody else was faster
	case err == nil:
		l.failed = 0
		l.config.Problems.Say("lease", object.String())
		return
	}
	if l.failed++; l.failed < patience {
		return
	}
	l.config.Problems.Say("lease", object.String(), problems.Problem{
		Object: object, Severity: problems.Error, Message: fmt.Sprintf("cannot be kept: %v", err), Instead: "until it can, " + l.config.Work,
	})
}
