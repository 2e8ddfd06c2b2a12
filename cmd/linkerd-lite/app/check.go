package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
)

const checkInterval = 100 * time.Millisecond

func newCheckCommand() *cobra.Command {
	var (
		dataDir, output string
		wait            time.Duration
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the running instance is ready, part by part",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, err := checkWriter(output)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(wait, checkInterval))
			defer cancel()
			report, failure := newCheckReport(waitReady(ctx, dataDir))
			return errors.Join(write(cmd.OutOrStdout(), report), failure)
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for an instance that is ready")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, short (only what is wrong) or json")
	return cmd
}

// readiness is the answer of /ready, with the type of what it says of manifests.
type readiness struct {
	admin.Readiness
	Manifests *manifests.Status `json:"manifests"`
}

// waitReady asks until the instance is ready or ctx ends, and returns the last answer.
func waitReady(ctx context.Context, dataDir string) (*RunInfo, *readiness, error) {
	for {
		info, readiness, err := askReady(ctx, dataDir)
		if err == nil {
			return info, readiness, nil
		}
		select {
		case <-ctx.Done():
			return info, readiness, err
		case <-time.After(checkInterval):
		}
	}
}

func askReady(ctx context.Context, dataDir string) (*RunInfo, *readiness, error) {
	info, err := findInstance(dataDir)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+info.Addresses["admin"]+"/ready", nil)
	if err != nil {
		return info, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return info, nil, fmt.Errorf("asking the instance: %w", err)
	}
	defer response.Body.Close()
	answer := &readiness{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return info, nil, fmt.Errorf("asking the instance: %w", err)
	}
	if !answer.Ready {
		return info, answer, fmt.Errorf("not ready")
	}
	return info, answer, nil
}
