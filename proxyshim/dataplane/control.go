package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// maxMessage bounds messages of the control plane, in bytes: Services with
// thousands of endpoints have large ones.
const maxMessage = 64 << 20

// dialControl makes a client of a service of the control plane: in plaintext on
// this machine, else by TLS. Names are looked up anew for each connection.
func dialControl(config *Config, m *metrics, t meshclient.Target) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return config.Dial(ctx, "tcp", addr) }),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: minBackoff, Multiplier: 2, Jitter: 0.1, MaxDelay: maxBackoff},
			MinConnectTimeout: certifyTimeout,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(),
	}
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return nil, fmt.Errorf("address of the control plane: %w", err)
	}
	if strings.EqualFold(host, "localhost.") {
		t.Addr = net.JoinHostPort("127.0.0.1", port)
		host = "127.0.0.1"
	}
	id := t.ServerName
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		id = ""
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	return t.Dial(append(options, m.control(t.Addr, id))...)
}

// dialServices makes clients of the services that are asked all the time.
func dialServices(config *Config, m *metrics) (*control, error) {
	destination, err := dialControl(config, m, config.Workload.Destination)
	if err != nil {
		return nil, err
	}
	policy, err := dialControl(config, m, config.Workload.Policy)
	if err != nil {
		return nil, errors.Join(err, destination.Close())
	}
	return &control{destination, policy}, nil
}

func (c *control) close() error { return errors.Join(c.destination.Close(), c.policy.Close()) }
