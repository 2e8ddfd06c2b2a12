// Command local-proxy is a proxy for bytes: as much of Linkerd's as it takes to
// see a connection go through the mesh. It runs in the environment that
// linkerd-lite proxy-env prints, and speaks to the control plane and to its
// peers as the real one does. It does not know HTTP, gets its certificate once,
// and asks for endpoints anew for each connection.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// dialTimeout is for everything that comes before the first byte.
const dialTimeout = 5 * time.Second

const usage = `usage: local-proxy proxy                in the environment that linkerd-lite proxy-env prints
       local-proxy app ADDRESS TEXT     an application that says TEXT`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "local-proxy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "proxy":
		return runProxy(ctx)
	case len(args) == 3 && args[0] == "app":
		server := &http.Server{Addr: args[1], ReadHeaderTimeout: dialTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, args[2])
		})}
		defer context.AfterFunc(ctx, func() { server.Close() })()
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
	return errors.New(usage)
}

// proxy is one workload's.
type proxy struct {
	workload            *meshclient.Workload
	identity            *meshclient.Identity
	destination, policy *grpc.ClientConn
	log                 *slog.Logger
	ports               ports
}

func runProxy(ctx context.Context) error {
	workload, err := meshclient.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	p := &proxy{workload: workload, log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	certify, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if p.identity, err = workload.Certify(certify); err != nil {
		return err
	}
	workload.Destination.Identity, workload.Policy.Identity = p.identity, p.identity
	if p.destination, err = workload.Destination.Dial(); err != nil {
		return err
	}
	defer p.destination.Close()
	if p.policy, err = workload.Policy.Dial(); err != nil {
		return err
	}
	defer p.policy.Close()

	group, ctx := errgroup.WithContext(ctx)
	for name, serve := range map[string]func(context.Context, net.Conn) error{"INBOUND": p.inbound, "OUTBOUND": p.outbound} {
		l, err := net.Listen("tcp", os.Getenv("LINKERD2_PROXY_"+name+"_LISTEN_ADDR"))
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		group.Go(func() error { return p.accept(ctx, l, name, serve) })
	}
	p.log.Info("proxy runs", "identity", workload.Request.Identity)
	return group.Wait()
}

// accept serves each connection until ctx ends.
func (p *proxy) accept(ctx context.Context, l net.Listener, name string, serve func(context.Context, net.Conn) error) error {
	var conns errgroup.Group
	defer conns.Wait() //nolint:errcheck // they log their errors
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() error {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := serve(ctx, conn); err != nil {
				p.log.Warn("connection closed", "direction", name, "reason", err)
			}
			return nil
		})
	}
}

// join copies bytes both ways until both sides have said all.
func join(a, b net.Conn) {
	var group errgroup.Group
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		group.Go(func() error {
			_, err := io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(interface{ CloseWrite() error }); ok && err == nil {
				return half.CloseWrite()
			}
			// Nothing more can be said either way.
			a.Close()
			b.Close()
			return err
		})
	}
	_ = group.Wait()
}
