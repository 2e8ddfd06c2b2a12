package injector

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A Service with probeAnnotation comes back with the value probeSeen if the
// injector was asked.
const (
	probeAnnotation = "lite.linkerd.io/injector-probe"
	probeSeen       = "seen"
)

// probeService reports whether the API server asks the injector about objects of a
// namespace. It creates a Service as a dry run: a Pod would first need a
// service account, and nothing is stored.
func probeService(ctx context.Context, config *rest.Config, namespace string) (bool, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, err
	}
	service, err := client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "linkerd-lite-probe-",
			Annotations:  map[string]string{probeAnnotation: ""},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "probe.invalid"},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return false, fmt.Errorf("probe the injector with a Service in %s: %w", namespace, err)
	}
	return service.Annotations[probeAnnotation] == probeSeen, nil
}
