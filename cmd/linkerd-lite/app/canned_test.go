package app

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// dialCanned connects to a server of canned answers in this process.
func dialCanned(t *testing.T, register func(*grpc.Server)) connector {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return func(context.Context) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:canned", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	}
}

// runCanned runs a command, which is to fail with that text unless it is "".
func runCanned(t *testing.T, cmd *cobra.Command, args []string, stdout, stderr io.Writer, fail string) {
	t.Helper()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(t.Context())
	if fail == "" && err != nil {
		t.Fatal(err)
	}
	if fail != "" && (err == nil || !strings.Contains(err.Error(), fail)) {
		t.Fatalf("error %v, want one with %q", err, fail)
	}
}
