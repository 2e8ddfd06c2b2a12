package identity

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TokenReviewer asks the API server whose a token is.
// AuthenticationV1().TokenReviews() of client-go is one.
type TokenReviewer interface {
	Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// maxReviews bounds the reviews under way. The API server serves 200 writes at
// once and sends the rest away for a second; who starts 500 proxies at once
// waits less in this line (B72).
const maxReviews = 50

// user returns the user name behind token, which must be meant for identity
// or else for the API server itself (identity section 3).
func (s *Service) user(ctx context.Context, token string) (string, error) {
	if err := s.reviews.Acquire(ctx, 1); err != nil {
		return "", status.FromContextError(err).Err()
	}
	defer s.reviews.Release(1)
	reviewer := s.config.Reviews
	review, err := reviewToken(ctx, reviewer, token, []string{Audience})
	if err != nil {
		return "", err
	}
	// Tokens of proxies without a projected volume have the API server's own
	// audience.
	if strings.Contains(review.Status.Error, "token audiences") {
		if review, err = reviewToken(ctx, reviewer, token, nil); err != nil {
			return "", err
		}
	}
	switch {
	case review.Status.Error != "":
		return "", status.Errorf(codes.InvalidArgument, "the token is invalid: %s", review.Status.Error)
	case !review.Status.Authenticated:
		return "", status.Error(codes.FailedPrecondition, "the token is not authenticated")
	}
	return review.Status.User.Username, nil
}

func reviewToken(ctx context.Context, reviewer TokenReviewer, token string, audiences []string) (*authenticationv1.TokenReview, error) {
	review, err := reviewer.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, status.Error(codes.Internal, fmt.Errorf("review token: %w", err).Error())
	}
	return review, nil
}
