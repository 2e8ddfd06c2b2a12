package inbound

import (
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// server is what policy depends on of a Server (policy-inbound 4.4). Immutable.
type server struct {
	metav1.Object
	serverSpec
	// target and namespaceTarget are the index keys of what is for the Server.
	target, namespaceTarget string
}

type serverSpec struct {
	labels  map[string]string
	created time.Time
	// external tells that the selector is for ExternalWorkloads.
	external bool
	selector *apis.LabelSelector
	port     intstr.IntOrString
	protocol apis.ProxyProtocol
	// access is the accessPolicy; "" adds nothing.
	access policyName
}

// server derives a Server. Metadata that policy does not read makes no new one.
func (d *deriver) server(source *policyv1beta3.Server, previous *server) (*server, []problems.Problem) {
	spec := serverSpec{
		labels:   source.Labels,
		created:  source.CreationTimestamp.Time,
		selector: source.Spec.PodSelector,
		port:     source.Spec.Port,
		protocol: source.Spec.ProxyProtocol,
	}
	if source.Spec.ExternalWorkloadSelector != nil {
		spec.external, spec.selector = true, source.Spec.ExternalWorkloadSelector
	}
	var found []problems.Problem
	if text := source.Spec.AccessPolicy; text != "" {
		var err error
		if spec.access, err = parsePolicyName(text); err != nil {
			found = append(found, problems.Ignored(field.NewPath("spec", "accessPolicy"), err, "it is as if there were none"))
		}
	}
	if previous != nil && previous.GetUID() == source.UID && reflect.DeepEqual(previous.serverSpec, spec) {
		return previous, found
	}
	return &server{
		Object: source, serverSpec: spec,
		target: serverTarget(source.Namespace, source.Name), namespaceTarget: namespaceTarget(source.Namespace),
	}, found
}

// selects tells whether the Server is one for the workload. Namespaces are
// compared too, so that no caller can forget to (B33).
func (s *server) selects(w *workload) bool {
	return s.external == w.external && s.GetNamespace() == w.GetNamespace() && s.selector != nil && s.selector.Matches(w.labels)
}

// ports are the Server's ports on a workload that it selects.
func (s *server) ports(w *workload) []uint16 {
	if s.port.Type == intstr.String {
		return w.named[s.port.StrVal]
	}
	return []uint16{uint16(s.port.IntVal)}
}

// before orders Servers by precedence: the oldest first, then by name. One
// without a creation time precedes all others.
func (s *server) before(other *server) int {
	if c := s.created.Compare(other.created); c != 0 {
		return c
	}
	return strings.Compare(s.GetName(), other.GetName())
}
