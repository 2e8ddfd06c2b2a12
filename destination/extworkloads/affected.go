package extworkloads

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// selects reports whether the Service's endpoints come from a selector that
// matches the labels.
func selects(service *corev1.Service, set map[string]string) bool {
	return managed(service) && labels.SelectorFromValidatedSet(service.Spec.Selector).Matches(labels.Set(set))
}

// managed is false for Services that this controller leaves alone.
func managed(service *corev1.Service) bool {
	return service.Namespace != "kube-system" && service.Spec.Type != corev1.ServiceTypeExternalName && len(service.Spec.Selector) > 0
}

// affected lists the Services whose slices may differ after a workload went
// from old to now, either of which may be nil. What no slice shows affects
// none; a change of labels alone affects the Services that select one version
// only (D144); any other change those that select either.
func affected(r *state.Reader, old, now *workloadv1beta1.ExternalWorkload) []types.NamespacedName {
	subject := now
	if subject == nil {
		subject = old
	}
	if subject == nil {
		return nil
	}
	sameContent := old != nil && now != nil && sameEndpoint(old, now)
	if sameContent && maps.Equal(old.Labels, now.Labels) {
		return nil
	}
	var keys []types.NamespacedName
	for service := range state.List(r, state.Services, subject.Namespace) {
		before := old != nil && selects(service, old.Labels)
		after := now != nil && selects(service, now.Labels)
		if sameContent && before != after || !sameContent && (before || after) {
			keys = append(keys, types.NamespacedName{Namespace: service.Namespace, Name: service.Name})
		}
	}
	return keys
}

// sameEndpoint compares what a slice shows of a workload, besides the labels
// by which it is selected. The zone is a label that a slice does show.
func sameEndpoint(a, b *workloadv1beta1.ExternalWorkload) bool {
	return a.UID == b.UID &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		ready(a) == ready(b) &&
		slices.Equal(a.Spec.WorkloadIPs, b.Spec.WorkloadIPs) &&
		apiequality.Semantic.DeepEqual(a.Spec.Ports, b.Spec.Ports) &&
		zoneOf(a) == zoneOf(b)
}
