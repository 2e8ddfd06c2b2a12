package inbound

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// rateLimit is an HTTPLocalRateLimitPolicy (policy-inbound 9). Immutable.
type rateLimit struct {
	metav1.Object
	created time.Time
	// server is the index key of the limited Server, "" unless the policy is accepted.
	server  string
	message *pb.HttpLocalRateLimit
}

var limitsByServer = state.NewIndex(0, "server", func(l *rateLimit) []string {
	if l.server == "" {
		return nil
	}
	return []string{l.server}
})

func (d *deriver) rateLimit(source *policyv1alpha1.HTTPLocalRateLimitPolicy, previous *rateLimit) (*rateLimit, []problems.Problem) {
	target := source.Spec.TargetRef
	if !target.Targets(apis.Group, "Server") {
		return unusable(source, fmt.Errorf("spec.targetRef: kind %s cannot be a target", target.GroupKind()), previous)
	}
	out := &rateLimit{Object: source, created: source.CreationTimestamp.Time}
	for _, condition := range source.Status.Conditions {
		if condition.Type == "Accepted" && condition.Status == metav1.ConditionTrue {
			out.server = serverTarget(source.Namespace, target.Name)
		}
	}
	out.message = &pb.HttpLocalRateLimit{
		Metadata: resourceMetadata(apis.Group, "HTTPLocalRateLimitPolicy", source.Name),
		Total:    limit(source.Spec.Total),
		Identity: limit(source.Spec.Identity),
	}
	for i, override := range source.Spec.Overrides {
		clients := &pb.HttpLocalRateLimit_Override_ClientIdentities{}
		for _, ref := range override.ClientRefs {
			if !ref.Targets("", "ServiceAccount") {
				return unusable(source, fmt.Errorf("spec.overrides[%d].clientRefs: kind %s has no identity", i, ref.GroupKind()), previous)
			}
			namespace := ref.Namespace
			if namespace == "" {
				namespace = source.Namespace
			}
			clients.Identities = append(clients.Identities, &pb.Identity{Name: d.mesh.serviceAccount(namespace, ref.Name)})
		}
		out.message.Overrides = append(out.message.Overrides, &pb.HttpLocalRateLimit_Override{
			Limit:   &pb.HttpLocalRateLimit_Limit{RequestsPerSecond: override.RequestsPerSecond},
			Clients: clients,
		})
	}
	return out, nil
}

func limit(l *policyv1alpha1.RateLimit) *pb.HttpLocalRateLimit_Limit {
	if l == nil {
		return nil
	}
	return &pb.HttpLocalRateLimit_Limit{RequestsPerSecond: l.RequestsPerSecond}
}

// before orders the limits of one Server, of which the first counts.
func (l *rateLimit) before(other *rateLimit) int {
	if l.created.IsZero() != other.created.IsZero() {
		if l.created.IsZero() {
			return 1
		}
		return -1
	}
	if c := l.created.Compare(other.created); c != 0 {
		return c
	}
	return strings.Compare(l.GetName(), other.GetName())
}
