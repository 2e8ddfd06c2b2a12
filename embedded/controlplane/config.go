package controlplane

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// KeyPair is a certificate chain and its key, both PEM.
type KeyPair struct{ Certificate, Key string }

// Config is what differs between control planes. Empty values outside Settings
// mean the defaults of the 2.20 chart.
type Config struct {
	linkerd.Settings

	// Version is what the tools take for Linkerd's. Required.
	Version string
	// ProxyVersion is what the pods' proxies say they are. Required.
	ProxyVersion string
	// TrustAnchors is the PEM bundle of the mesh's roots. Required.
	TrustAnchors string
	// Issuer signs the mesh's certificates.
	Issuer *KeyPair
	// IssuerScheme is the type of the issuer's Secret: linkerd.io/tls, which is an
	// Opaque one, or kubernetes.io/tls.
	IssuerScheme string
	// IssuanceLifetime and ClockSkewAllowance are those of the mesh's certificates.
	IssuanceLifetime, ClockSkewAllowance time.Duration
	// Webhooks is what the webhooks' server shows; valid for SERVICE.NAMESPACE.svc.
	Webhooks *KeyPair

	// Replicas of each Deployment.
	Replicas int32
	// Destination, Policy and Identity are where these APIs are served.
	Destination, Policy, Identity netip.AddrPort
}

// CreatedBy is the value of linkerd.io/created-by on all objects.
const CreatedBy = "linkerd-lite"

func (c Config) withDefaults() (Config, error) {
	if c.Version == "" || c.ProxyVersion == "" || c.TrustAnchors == "" {
		return c, errors.New("control-plane objects need a version, a proxy version and trust anchors")
	}
	c.IssuerScheme = cmp.Or(c.IssuerScheme, "linkerd.io/tls")
	c.IssuanceLifetime = cmp.Or(c.IssuanceLifetime, 24*time.Hour)
	c.ClockSkewAllowance = cmp.Or(c.ClockSkewAllowance, 20*time.Second)
	return c, nil
}
