package diagnostics

import (
	"context"
	"fmt"
	"io"
	"net/netip"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/grpclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// Client is a client of a running instance's API server.
func Client(info *datadir.RunInfo) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", info.Kubeconfig, err)
	}
	return kubernetes.NewForConfig(config)
}

// TrustAnchors is the PEM bundle that the control plane in namespace uses.
func TrustAnchors(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	roots, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, "linkerd-identity-trust-roots", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the trust anchors: %w", err)
	}
	return roots.Data["ca-bundle.crt"], nil
}

// Dial dials one of the gRPC APIs of a running instance: in plaintext on
// loopback, else as a workload of the mesh, which is all that is served there.
func Dial(ctx context.Context, info *datadir.RunInfo, listener string) (*grpc.ClientConn, error) {
	address := info.Addresses[listener]
	if address == "" {
		return nil, fmt.Errorf("the instance in %s does not serve the %s API", info.DataDir, listener)
	}
	if at, err := netip.ParseAddrPort(address); err == nil && !at.Addr().IsLoopback() {
		return dialMesh(ctx, info, at)
	}
	return DialPlaintext(listener, address)
}

// DialPlaintext dials an API at an address, without TLS.
func DialPlaintext(listener, address string) (*grpc.ClientConn, error) {
	// gRPC would log each failed attempt besides the error.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial the %s API at %s: %w", listener, address, err)
	}
	return conn, nil
}
