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

// EnsurePriorities creates the priority classes of the system, which Pods may
// name. Like EnsureRoles it replaces a start hook that cannot be cancelled.
func (s *Server) EnsurePriorities(ctx context.Context) error {
	client, err := s.protobufClient()
	if err != nil {
		return err
	}
	for _, class := range schedulingv1.SystemPriorityClasses() {
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("default priority class %s: %w", class.Name, err)
		}
	}
	return nil
}

// EnsureRoles creates the default roles and bindings of Kubernetes. Clients
// with all rights, such as those of the kubeconfig, need none of them.
func (s *Server) EnsureRoles(ctx context.Context) error {
	client, err := s.protobufClient()
	if err != nil {
		return err
	}
	return ensureRoles(ctx, client)
}

func (s *Server) protobufClient() (kubernetes.Interface, error) {
	config := s.Client()
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}
