package crds

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// establish finishes what a process that was killed began: the API server takes the step from accepted names to
// "established" only when it sees the change to the first, so a definition that was stored between the two would be
// served at the next resync of its informer, minutes later. It looks at all definitions, built in or not.
func (k *Keeper) establish(ctx context.Context, store cache.Store) error {
	client := k.client.ApiextensionsV1().CustomResourceDefinitions()
	for _, object := range store.List() {
		stored := object.(*apiextensionsv1.CustomResourceDefinition)
		if !halfEstablished(stored) {
			continue
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			crd, err := client.Get(ctx, stored.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil || !halfEstablished(crd) {
				return err
			}
			apihelpers.SetCRDCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
				Type:    apiextensionsv1.Established,
				Status:  apiextensionsv1.ConditionTrue,
				Reason:  "InitialNamesAccepted",
				Message: "the initial names have been accepted",
			})
			_, err = client.UpdateStatus(ctx, crd, metav1.UpdateOptions{FieldManager: FieldManager})
			return err
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("establish custom resource definition %s: %w", stored.Name, err)
		}
	}
	return nil
}

// halfEstablished says that names are accepted and no more is known. A definition that the API server refused to
// establish has a condition that says so.
func halfEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	established := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established)
	return crd.DeletionTimestamp == nil && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) &&
		(established == nil || established.Status != apiextensionsv1.ConditionTrue && established.Reason != "InvalidCABundle")
}
