package status

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// leaseManager is the field manager that creates the Lease.
const leaseManager = "policy-controller"

// createLease creates the Lease, held by nobody, unless there is one
// (policy-status 4). The Deployment of the policy controller owns it; where
// there is none, as with a control plane of this process alone, nobody does.
func (w *Writer) createLease(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.config.ControlPlaneNamespace,
		Name:      linkerd.PolicyWriteLease,
		Labels: map[string]string{
			linkerd.ControlPlaneComponentLabel: "destination",
			linkerd.ControlPlaneNSLabel:        w.config.ControlPlaneNamespace,
		},
	}}
	owner, err := w.config.Kube.AppsV1().Deployments(w.config.ControlPlaneNamespace).Get(ctx, w.config.DeploymentName, metav1.GetOptions{})
	switch {
	case err == nil:
		controller := true
		lease.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID, Controller: &controller,
		}}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the Deployment %s/%s: %w", w.config.ControlPlaneNamespace, w.config.DeploymentName, err)
	}
	_, err = w.config.Kube.CoordinationV1().Leases(w.config.ControlPlaneNamespace).Create(ctx, lease, metav1.CreateOptions{FieldManager: leaseManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the Lease %s/%s: %w", w.config.ControlPlaneNamespace, lease.Name, err)
	}
	return nil
}
