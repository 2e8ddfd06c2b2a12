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
func (c *Cluster) newIdentity(kube kubernetes.Interface, events record.EventRecorder) (*identity.Service, error) {
	o := &c.config.Identity
	return identity.New(identity.Config{
		Files: identity.Files{
			Dir: filepath.Join(c.dir.Path(), "identity"), IssuerDir: o.IssuerDir, AnchorsFile: o.AnchorsFile, Scheme: identity.Scheme(o.Scheme),
		},
		Settings:       c.config.ControlPlane.Settings,
		Lifetime:       o.Lifetime,
		ClockSkew:      o.ClockSkew,
		Reviews:        kube.AuthenticationV1().TokenReviews(),
		Access:         kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Events:         events,
		IssuerReplaced: c.certificateReplaced,
		Registerer:     c.registry,
		Clock:          clock.RealClock{},
		Log:            c.log.With("part", "identity"),
	})
}
