package identity

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// event records an event if there is a recorder.
func (s *Service) event(object corev1.ObjectReference, kind, reason, message string) {
	if s.config.Events != nil {
		s.config.Events.Event(&object, kind, reason, message)
	}
}

// deployment is the object that issuer events are about (identity section 5).
func (s *Service) deployment() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "Deployment",
		Namespace: s.config.ControlPlaneNamespace, Name: "linkerd-identity",
	}
}

// serviceAccount is the account of a user name that ofUser has accepted. Like
// Linkerd's, the reference has no kind.
func serviceAccount(user string) corev1.ObjectReference {
	parts := strings.Split(user, ":")
	return corev1.ObjectReference{Namespace: parts[2], Name: parts[3]}
}
