package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// checkInterval is the pause between two questions, in a start.
const checkInterval = 100 * time.Millisecond

// Readiness is the answer of /ready, with the type of what it says of manifests.
type Readiness struct {
	admin.Readiness
	Manifests *manifests.Status `json:"manifests"`
}

// WaitReady asks until the instance is ready or ctx ends, and returns the last
// answer. It waits for an instance to appear only if told so.
func WaitReady(ctx context.Context, dataDir string, appear bool) (*datadir.RunInfo, *Readiness, error) {
	for {
		info, answer, err := askReady(ctx, dataDir)
		if err == nil || datadir.IsAmbiguous(err) || errors.Is(err, datadir.ErrNotRunning) && !appear {
			return info, answer, err
		}
		select {
		case <-ctx.Done():
			return info, answer, err
		case <-time.After(checkInterval):
		}
	}
}

func askReady(ctx context.Context, dataDir string) (*datadir.RunInfo, *Readiness, error) {
	info, err := datadir.Find(dataDir)
	if err != nil {
		return nil, nil, err
	}
	answer := &Readiness{}
	// Who is not ready answers with an error, and the same content.
	if _, err := ask(ctx, info, "ready", answer); err != nil {
		return info, nil, err
	}
	if !answer.Ready {
		return info, answer, fmt.Errorf("not ready")
	}
	return info, answer, nil
}
