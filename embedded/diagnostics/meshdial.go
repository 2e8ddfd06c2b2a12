package diagnostics

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

// meshTokenLifetime is the shortest that API servers give.
const meshTokenLifetime = 10 * time.Minute

// dialMesh dials the destination or policy API of an instance by mutual TLS,
// with a certificate of the control plane's own account: whoever can read the
// kubeconfig may have it.
func dialMesh(ctx context.Context, info *datadir.RunInfo, at netip.AddrPort) (*grpc.ClientConn, error) {
	client, err := Client(info)
	if err != nil {
		return nil, err
	}
	namespace := info.ControlPlaneNamespace
	pem, err := TrustAnchors(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	anchors := x509.NewCertPool()
	anchors.AppendCertsFromPEM([]byte(pem))
	const account = "linkerd-destination"
	token, err := proxyenv.Token(ctx, client.CoreV1().ServiceAccounts(namespace), account, nil, meshTokenLifetime)
	if err != nil {
		return nil, err
	}
	name := func(account string) string {
		return linkerd.ServiceAccountIdentity(account, namespace, namespace, info.TrustDomain)
	}
	request, err := meshclient.NewRequest(name(account))
	if err != nil {
		return nil, err
	}
	identityAt, err := netip.ParseAddrPort(info.Addresses["identity"])
	if err != nil {
		return nil, fmt.Errorf("address of the identity API: %w", err)
	}
	identity, err := meshclient.Target{Addr: local(identityAt), ServerName: name("linkerd-identity"), Anchors: anchors}.Dial()
	if err != nil {
		return nil, err
	}
	defer identity.Close()
	certificate, err := request.Certify(ctx, identity, []byte(token))
	if err != nil {
		return nil, err
	}
	return meshclient.Target{Addr: local(at), ServerName: name("linkerd-destination"), Anchors: anchors, Identity: certificate}.Dial()
}

// local is where an address that is listened on can be dialled on this machine.
func local(at netip.AddrPort) string {
	switch {
	case !at.Addr().IsUnspecified():
	case at.Addr().Is4():
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	default:
		at = netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
	}
	return at.String()
}
