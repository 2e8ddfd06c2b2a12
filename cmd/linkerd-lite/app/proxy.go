package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/internal/memory"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
)

// exitEnvironment is linkerd2-proxy's code for an environment that it cannot read.
const exitEnvironment = 64

func newProxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "proxy",
		Short:  "Stand in for linkerd2-proxy in the environment that an injector writes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			return runProxy(ctx, os.Getenv, cmd.ErrOrStderr())
		},
	}
}

func runProxy(ctx context.Context, getenv func(string) string, stderr io.Writer) error {
	fmt.Fprintln(stderr, "linkerd-lite proxy: this is a stand-in, not linkerd2-proxy: it is meant for trying things out")
	// Fields of the setting are TARGET=LEVEL; which parts log what is the real
	// proxy's own business.
	level := slog.LevelInfo
	if strings.Contains(getenv("LINKERD2_PROXY_LOG"), "debug") {
		level = slog.LevelDebug
	}
	config, err := dataplane.FromEnvironment(getenv, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return &exitError{code: exitEnvironment, err: err}
	}
	listeners, err := dataplane.Listen(config)
	if err != nil {
		return err
	}
	proxy := dataplane.New(config, listeners)
	// Most of the program is for other commands; the second time also what the
	// first connections needed is let go.
	for _, after := range []time.Duration{memory.SettleTime, 10 * memory.SettleTime} {
		defer time.AfterFunc(after, memory.Trim).Stop()
	}
	return proxy.Run(ctx)
}
