package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/linkerd-lite/linkerd-lite/embedded"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// identityFlags are the flags of the certificate authority.
type identityFlags struct{ embedded.IdentityConfig }

func (o *identityFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.IssuerDir, "identity-issuer-dir", "", "directory of an issuer of your own, watched for changes (default: one is made)")
	flags.StringVar(&o.AnchorsFile, "identity-trust-anchors-file", "", "PEM bundle of the trust anchors of --identity-issuer-dir")
	flags.StringVar(&o.Scheme, "identity-scheme", o.Scheme,
		"files in --identity-issuer-dir: linkerd.io/tls (crt.pem, key.pem) or kubernetes.io/tls (tls.crt, tls.key)")
	flags.DurationVar(&o.Lifetime, "identity-issuance-lifetime", o.Lifetime, "lifetime of proxies' certificates")
	flags.DurationVar(&o.ClockSkew, "identity-clock-skew-allowance", o.ClockSkew, "what is added to that lifetime at both ends, for clocks that differ")
}

func (o *identityFlags) complete() error {
	if (o.IssuerDir == "") != (o.AnchorsFile == "") {
		return errors.New("--identity-issuer-dir and --identity-trust-anchors-file need each other")
	}
	switch identity.Scheme(o.Scheme) {
	case identity.SchemeLinkerd:
	case identity.SchemeKubernetes:
		if o.IssuerDir == "" {
			return fmt.Errorf("--identity-scheme=%s is for --identity-issuer-dir", o.Scheme)
		}
	default:
		return fmt.Errorf("--identity-scheme=%s: must be %s or %s", o.Scheme, identity.SchemeLinkerd, identity.SchemeKubernetes)
	}
	for flag, value := range map[string]time.Duration{"identity-issuance-lifetime": o.Lifetime, "identity-clock-skew-allowance": o.ClockSkew} {
		if value <= 0 {
			return fmt.Errorf("--%s=%v: must be positive", flag, value)
		}
	}
	return nil
}
