package identity

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessReviewer tells what this process may do.
// AuthorizationV1().SelfSubjectAccessReviews() of client-go is one.
type AccessReviewer interface {
	Create(context.Context, *authorizationv1.SelfSubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error)
}

// checkAccess fails when token reviews are denied to this process: every
// Certify would fail later, with the cause far from the eye.
func checkAccess(ctx context.Context, reviewer AccessReviewer) error {
	review, err := reviewer.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask for access to token reviews: %w", err)
	}
	if !review.Status.Allowed {
		return errors.New("the API server does not let identity create token reviews: " + review.Status.Reason)
	}
	return nil
}
