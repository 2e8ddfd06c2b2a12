package extworkloads

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// basedPlan is a Plan with the slices that it is based on. Immutable.
type basedPlan struct {
	Plan
	existing []*discoveryv1.EndpointSlice
}

var _ reconcile.Plan = basedPlan{}

// Version is part of reconcile.Plan.
func (p basedPlan) Version(name string) string {
	for _, slice := range p.existing {
		if slice.Name == name {
			return slice.ResourceVersion
		}
	}
	return ""
}

// samePlan leaves the slices out where nothing is to be written.
func samePlan(a, b basedPlan) bool {
	if a.Empty() || b.Empty() {
		return a.Empty() && b.Empty()
	}
	return apiequality.Semantic.DeepEqual(a.existing, b.existing) && apiequality.Semantic.DeepEqual(a.Plan, b.Plan)
}

// planOf is the function of the views: what has to be written so that a
// Service's slices are what they should be.
func planOf(r *view.Reader, key reconcile.Key, _ *basedPlan) basedPlan {
	service, ok := state.Get(r.Reader, state.Services, key.Namespace, key.Name)
	if !ok || !managed(service) {
		// The garbage collector removes a deleted Service's slices.
		return basedPlan{}
	}
	selector := labels.SelectorFromValidatedSet(service.Spec.Selector)
	selected := func(ew *workloadv1beta1.ExternalWorkload) bool { return selector.Matches(labels.Set(ew.Labels)) }
	var workloads []*workloadv1beta1.ExternalWorkload
	for ew := range state.ListWhere(r.Reader, state.ExternalWorkloads, key.Namespace, selected) {
		workloads = append(workloads, ew)
	}
	var existing []*discoveryv1.EndpointSlice
	for slice := range state.By(r.Reader, state.EndpointSlices, state.SlicesByService, key.Namespace+"/"+key.Name) {
		if slice.Labels[discoveryv1.LabelManagedBy] == linkerd.ExternalWorkloadSliceManager {
			existing = append(existing, slice)
		}
	}
	return basedPlan{NewPlan(service, workloads, existing), existing}
}

// managed is false for Services that this controller leaves alone.
func managed(service *corev1.Service) bool {
	return service.Namespace != "kube-system" && service.Spec.Type != corev1.ServiceTypeExternalName && len(service.Spec.Selector) > 0
}
