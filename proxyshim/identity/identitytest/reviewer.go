// Package identitytest stands in for the API server in tests of what uses
// identities.
package identitytest

import (
	"context"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reviewer answers token reviews as the API server does. Tokens are the user
// name with the audience in front, such as
// "identity.l5d.io|system:serviceaccount:ns:sa"; others are not known to it.
type Reviewer struct {
	// Err, when set, is the answer to every review.
	Err error
}

// Token is the token of a service account for the audience.
func Token(audience, namespace, account string) string {
	return audience + "|system:serviceaccount:" + namespace + ":" + account
}

// Create reviews.
func (r *Reviewer) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	out := review.DeepCopy()
	audience, user, ok := strings.Cut(review.Spec.Token, "|")
	switch {
	case !ok:
		out.Status.Error = "invalid bearer token"
	case len(review.Spec.Audiences) > 0 && review.Spec.Audiences[0] != audience:
		out.Status.Error = "token audiences [" + audience + "] is invalid for the target audiences [" + review.Spec.Audiences[0] + "]"
	case user == "":
		// Known to nobody, without a reason given.
	default:
		out.Status.Authenticated = true
		out.Status.User.Username = user
	}
	return out, nil
}
