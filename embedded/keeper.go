package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// objectsRetry is the time after which the control plane's objects are written
// again when that has failed.
const objectsRetry = 2 * time.Second

// objectKeeper writes the objects by which tools recognise a control plane, and
// again whenever it is told that a certificate among them has been replaced.
type objectKeeper struct {
	log *slog.Logger
	// replaced holds a value when there is a certificate that was not written yet.
	replaced chan struct{}
}

func newObjectKeeper(log *slog.Logger) *objectKeeper {
	return &objectKeeper{log: log, replaced: make(chan struct{}, 1)}
}

// certificateReplaced makes run write the objects again. It does not wait for that.
func (k *objectKeeper) certificateReplaced() {
	select {
	case k.replaced <- struct{}{}:
	default:
	}
}

// run calls write, which writes the objects as they are at the time, until ctx
// ends. Only the first one must succeed.
func (k *objectKeeper) run(ctx context.Context, ready func(), write func(context.Context) error) error {
	if err := write(ctx); err != nil {
		return fmt.Errorf("objects of the control plane: %w", err)
	}
	ready()
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.replaced:
		case <-retry:
		}
		retry = nil
		if err := write(ctx); err != nil && ctx.Err() == nil {
			// What they are about works without them.
			k.log.Warn("objects of the control plane not updated", "retry", objectsRetry, "error", err)
			retry = time.After(objectsRetry)
		}
	}
}
