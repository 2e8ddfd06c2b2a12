package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

const checkInterval = 100 * time.Millisecond

func newCheckCommand() *cobra.Command {
	var (
		dataDir string
		wait    time.Duration
	)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say whether the running instance is ready, part by part",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), max(wait, checkInterval))
			defer cancel()
			info, readiness, err := waitReady(ctx, dataDir)
			if info != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "instance %s, process %d\n", info.DataDir, info.PID)
			}
			if readiness != nil {
				for _, part := range readiness.Parts {
					fmt.Fprintln(cmd.OutOrStdout(), checkLine(part))
				}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return checkManifests(cmd.OutOrStdout(), readiness)
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for an instance that is ready")
	return cmd
}

// readiness is the answer of /ready, with the type of what it says of manifests.
type readiness struct {
	admin.Readiness
	Manifests *manifests.Status `json:"manifests"`
}

// checkManifests says whether the manifests are applied; faults are an error.
func checkManifests(out io.Writer, readiness *readiness) error {
	if readiness.Manifests == nil {
		return nil
	}
	status := readiness.Manifests
	for _, faults := range [][]manifests.Fault{status.Faults, status.Waiting} {
		for _, fault := range faults {
			fmt.Fprintf(out, "× %s\n", fault.Error())
		}
	}
	for _, drift := range status.Drift {
		fmt.Fprintf(out, "‼ changed by others: %v\n", drift)
	}
	if !status.InSync {
		return fmt.Errorf("manifests are not in sync: %s, %d waiting, %s held",
			count(len(status.Faults), "fault"), len(status.Waiting), count(len(status.Held), "deletion"))
	}
	fmt.Fprintf(out, "√ manifests in sync: %s of %s\n", count(status.Objects, "object"), count(status.Files, "file"))
	return nil
}

// count is "1 file" or "2 files".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func checkLine(part lifecycle.Status) string {
	mark := "√"
	switch {
	case part.Error != "":
		return "× " + part.Name + ": " + part.Error
	case part.State == lifecycle.Waiting || part.State == lifecycle.Starting || part.State == lifecycle.Stopping:
		return "× " + part.Name + ": " + string(part.State)
	}
	return mark + " " + part.Name
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
