package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
)

// EnsureDefaults creates what every cluster has from the start: the priority
// classes of the system, and the default roles. It replaces start hooks of the
// server that cannot be cancelled.
func (s *Server) EnsureDefaults(ctx context.Context) error {
	config := s.Client()
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("default objects: %w", err)
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("default priority class %s: %w", class.Name, err)
		}
	}
	return ensureRoles(ctx, client)
}
