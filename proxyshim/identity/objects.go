package identity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Objects are the ConfigMap and the Secret in which tools look for anchors and
// issuer (identity section 4). Call it when the service is ready.
func (s *Service) Objects() (*corev1.ConfigMap, *corev1.Secret) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: s.config.ControlPlaneNamespace,
			Labels: map[string]string{
				linkerd.ControlPlaneComponentLabel: "identity",
				linkerd.ControlPlaneNSLabel:        s.config.ControlPlaneNamespace,
			},
		}
	}
	issuer, anchors := s.issuer.Load(), s.Anchors()
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta("linkerd-identity-issuer"),
		Type:       corev1.SecretTypeOpaque,
	}
	if s.config.Files.scheme() == SchemeKubernetes {
		secret.Type = corev1.SecretTypeTLS
		secret.Data = map[string][]byte{"tls.crt": issuer.pem.cert, "tls.key": issuer.pem.key, "ca.crt": anchors.PEM}
	} else {
		secret.Data = map[string][]byte{"crt.pem": issuer.pem.cert, "key.pem": issuer.pem.key}
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: meta("linkerd-identity-trust-roots"),
		Data:       map[string]string{anchorsFile: string(anchors.PEM)},
	}, secret
}
