// Command demo is an application of a few small services, and a client that
// counts how they answer. What it is, is said by its first argument.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// role runs one part of the demo until ctx ends.
type role func(ctx context.Context, flags *flag.FlagSet, args []string) error

var roles = map[string]role{"web": web, "emoji": emoji, "voting": voting, "greeter": greeter, "client": client}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || roles[args[0]] == nil {
		return errors.New("want web, emoji, voting, greeter or client, and -h for its flags")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return roles[args[0]](ctx, flag.NewFlagSet(args[0], flag.ExitOnError), args[1:])
}

// versionHeader names the version of emoji that an answer comes from.
const versionHeader = "Version"

// serveHTTP serves until ctx ends, and then what is under way.
func serveHTTP(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return server.Shutdown(grace)
	})
	return group.Wait()
}

// ready is what probes ask for.
func ready(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ready") }
