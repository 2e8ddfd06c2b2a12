package embedded

import (
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// newIdentity builds the certificate authority: the user's, or one that is kept
// in the data directory.
func (i *Cluster) newIdentity(kube kubernetes.Interface, events record.EventRecorder) (*identity.Service, error) {
	o := &i.config.Identity
	return identity.New(identity.Config{
		Files: identity.Files{
			Dir: filepath.Join(i.dir.Path(), "identity"), IssuerDir: o.IssuerDir, AnchorsFile: o.AnchorsFile, Scheme: identity.Scheme(o.Scheme),
		},
		ControlPlaneNamespace: i.config.ControlPlane.ControlPlaneNamespace,
		TrustDomain:           i.config.ControlPlane.TrustDomain,
		Lifetime:              o.Lifetime,
		ClockSkew:             o.ClockSkew,
		Reviews:               kube.AuthenticationV1().TokenReviews(),
		Access:                kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Events:                events,
		IssuerReplaced:        i.keeper.certificateReplaced,
		Registerer:            i.registry,
		Clock:                 clock.RealClock{},
		Log:                   i.log.With("part", "identity"),
	})
}
