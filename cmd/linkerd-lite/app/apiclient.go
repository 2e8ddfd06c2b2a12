package app

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
)

// connector dials one of the running instance's gRPC APIs: in plaintext on
// loopback, else as a workload of the mesh, which is all that is served there.
type connector func(ctx context.Context) (*grpc.ClientConn, error)

// apiClient finds the APIs of a running instance for commands that ask them.
type apiClient struct {
	dataDir string
	// address, when set, is dialled instead of a running instance's.
	address string
}

func (c *apiClient) addFlags(flags *pflag.FlagSet) {
	addDataDirFlag(flags, &c.dataDir)
	flags.StringVar(&c.address, "api-addr", "", "HOST:PORT of a control plane to ask in place of a running instance")
}

// to returns the connector to the API with that listener name.
func (c *apiClient) to(listener string) connector {
	return func(ctx context.Context) (*grpc.ClientConn, error) {
		address := c.address
		if address == "" {
			info, err := datadir.Find(c.dataDir)
			if err != nil {
				return nil, err
			}
			if address = info.Addresses[listener]; address == "" {
				return nil, fmt.Errorf("the instance in %s does not serve the %s API", info.DataDir, listener)
			}
			if at, err := netip.ParseAddrPort(address); err == nil && !at.Addr().IsLoopback() {
				return dialMesh(ctx, info, at)
			}
		}
		// Its library would log each failed attempt besides the error.
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
		conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("dial the %s API at %s: %w", listener, address, err)
		}
		return conn, nil
	}
}
