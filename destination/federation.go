package destination

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// federationKey names a federated Service.
type federationKey struct{ namespace, service string }

// federation is what a federated Service stands for (D section 1.15).
type federation struct {
	// exists is false once the Service is gone or not federated any more.
	exists bool
	// members are in order of precedence, each once.
	members []memberName
}

// maxMembers bounds what one stream of a federated Service can wait for. An
// annotation has room for more members than anybody has clusters.
const maxMembers = 1000

// memberName is a Service of a cluster, in the namespace of the federated
// Service. An empty cluster with local unset is possible, but never linked.
type memberName struct {
	local            bool
	cluster, service string
}

// compare orders by precedence: where two members offer one address, the first
// one describes it, whichever came first in time.
func (m memberName) compare(other memberName) int {
	if m.local != other.local {
		if m.local {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(m.cluster, other.cluster), strings.Compare(m.service, other.service))
}

func isFederated(service *corev1.Service) bool {
	_, remote := service.Annotations[linkerd.RemoteDiscoveryAnnotation]
	_, local := service.Annotations[linkerd.LocalDiscoveryAnnotation]
	return remote || local
}

func newFederationSet(g *view.Graph) *view.Set[federationKey, federation] {
	return view.NewSet(g, "destination/federations", func(r *view.Reader, key federationKey, _ *federation) federation {
		service, ok := state.Get(r.Reader, state.Services, key.namespace, key.service)
		if !ok || !isFederated(service) {
			return federation{}
		}
		return federation{exists: true, members: membersOf(service, r.Report)}
	}, func(a, b federation) bool { return a.exists == b.exists && slices.Equal(a.members, b.members) })
}

// membersOf reads the annotations. Items are not trimmed; bad ones are skipped.
func membersOf(service *corev1.Service, say report) []memberName {
	bad := func(message, instead string) {
		say(problems.Problem{
			Object: serviceObject(service.Namespace, service.Name), Field: problems.Annotation(linkerd.RemoteDiscoveryAnnotation).String(),
			Message: message, Instead: instead,
		})
	}
	var members []memberName
	if local := service.Annotations[linkerd.LocalDiscoveryAnnotation]; local != "" {
		members = append(members, memberName{local: true, service: local})
	}
	if list := service.Annotations[linkerd.RemoteDiscoveryAnnotation]; list != "" {
		for _, item := range strings.Split(list, ",") {
			name, cluster, ok := strings.Cut(item, "@")
			if !ok || strings.Contains(cluster, "@") {
				bad(fmt.Sprintf("member %q is not <service>@<cluster>", item), "the other members count")
				continue
			}
			members = append(members, memberName{cluster: cluster, service: name})
		}
	}
	slices.SortFunc(members, memberName.compare)
	members = slices.Compact(members)
	if len(members) > maxMembers {
		bad(fmt.Sprintf("%d members are too many", len(members)), fmt.Sprintf("the first %d count", maxMembers))
		members = members[:maxMembers]
	}
	return members
}
