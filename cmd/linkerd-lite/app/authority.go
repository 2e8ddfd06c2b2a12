package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// identityOptions are the flags of the certificate authority.
type identityOptions struct {
	issuerDir, anchorsFile, scheme string
	lifetime, clockSkew            time.Duration
}

func (o *identityOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.issuerDir, "identity-issuer-dir", "", "directory of an issuer of your own, watched for changes (default: one is made)")
	flags.StringVar(&o.anchorsFile, "identity-trust-anchors-file", "", "PEM bundle of the trust anchors of --identity-issuer-dir")
	flags.StringVar(&o.scheme, "identity-scheme", string(identity.SchemeLinkerd),
		"files in --identity-issuer-dir: linkerd.io/tls (crt.pem, key.pem) or kubernetes.io/tls (tls.crt, tls.key)")
	flags.DurationVar(&o.lifetime, "identity-issuance-lifetime", identity.DefaultLifetime, "lifetime of proxies' certificates")
	flags.DurationVar(&o.clockSkew, "identity-clock-skew-allowance", identity.DefaultClockSkew, "what is added to that lifetime at both ends, for clocks that differ")
}

func (o *identityOptions) complete() error {
	if (o.issuerDir == "") != (o.anchorsFile == "") {
		return errors.New("--identity-issuer-dir and --identity-trust-anchors-file need each other")
	}
	switch identity.Scheme(o.scheme) {
	case identity.SchemeLinkerd:
	case identity.SchemeKubernetes:
		if o.issuerDir == "" {
			return fmt.Errorf("--identity-scheme=%s is for --identity-issuer-dir", o.scheme)
		}
	default:
		return fmt.Errorf("--identity-scheme=%s: must be %s or %s", o.scheme, identity.SchemeLinkerd, identity.SchemeKubernetes)
	}
	for flag, value := range map[string]time.Duration{"identity-issuance-lifetime": o.lifetime, "identity-clock-skew-allowance": o.clockSkew} {
		if value <= 0 {
			return fmt.Errorf("--%s=%v: must be positive", flag, value)
		}
	}
	return nil
}

// newIdentity builds the certificate authority: the user's, or one that is kept
// in the data directory.
func (i *instance) newIdentity(kube kubernetes.Interface, events record.EventRecorder) (*identity.Service, error) {
	o := &i.options.identity
	return identity.New(identity.Config{
		Files: identity.Files{
			Dir: filepath.Join(i.dir.Path(), "identity"), IssuerDir: o.issuerDir, AnchorsFile: o.anchorsFile, Scheme: identity.Scheme(o.scheme),
		},
		ControlPlaneNamespace: i.options.core.controlPlaneNamespace,
		TrustDomain:           i.options.core.trustDomain,
		Lifetime:              o.lifetime,
		ClockSkew:             o.clockSkew,
		Reviews:               kube.AuthenticationV1().TokenReviews(),
		Access:                kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Events:                events,
		IssuerReplaced:        i.keeper.certificateReplaced,
		Registerer:            i.registry,
		Clock:                 clock.RealClock{},
		Log:                   i.log.With("part", "identity"),
	})
}
