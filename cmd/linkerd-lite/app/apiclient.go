package app

import (
	"context"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// connector dials one of the running instance's gRPC APIs.
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
		if c.address != "" {
			return diagnostics.DialPlaintext(listener, c.address)
		}
		info, err := datadir.Find(c.dataDir)
		if err != nil {
			return nil, err
		}
		return diagnostics.Dial(ctx, info, listener)
	}
}
