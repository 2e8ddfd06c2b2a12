package destination

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// opaqueServers are the Servers of one namespace that make ports opaque (D
// section 3.5). Any one of them suffices; Servers of other protocols have no
// say (D78). Immutable.
type opaqueServers struct {
	pods, workloads []opaqueServer
}

type opaqueServer struct {
	selector labels.Selector
	// text is the selector as written, to compare by.
	text string
	port intstr.IntOrString
}

// newOpaqueServerSet returns the views by namespace. A view changes only if
// the effect of a Server does, so that other edits of Servers touch no stream (D79, B32).
func newOpaqueServerSet(g *view.Graph) *view.Set[string, *opaqueServers] {
	return view.NewSet(g, "destination/opaque-servers", func(r *view.Reader, namespace string, previous **opaqueServers) *opaqueServers {
		found := &opaqueServers{}
		opaque := func(s *policyv1beta3.Server) bool { return s.Spec.ProxyProtocol == policy.ProxyProtocolOpaque }
		for server := range state.ListWhere(r.Reader, state.Servers, namespace, opaque) {
			if err := found.add(server); err != nil {
				r.Report(problems.Problem{
					Object: problems.ObjectOf(state.Servers.GVK, namespace, server.Name), Field: "spec",
					Message: err.Error(), Instead: "the Server makes no port opaque", Severity: problems.Error,
				})
			}
		}
		if previous != nil && (*previous).equal(found) {
			return *previous
		}
		return found
	}, func(a, b *opaqueServers) bool { return a == b })
}

func (s *opaqueServers) add(server *policyv1beta3.Server) error {
	for _, side := range []struct {
		selector *policy.LabelSelector
		servers  *[]opaqueServer
	}{{server.Spec.PodSelector, &s.pods}, {server.Spec.ExternalWorkloadSelector, &s.workloads}} {
		if side.selector == nil {
			continue // matches nothing, unlike an empty one
		}
		selector, err := compileSelector(side.selector)
		if err != nil {
			return err
		}
		*side.servers = append(*side.servers, opaqueServer{selector: selector, text: selector.String(), port: server.Spec.Port})
	}
	return nil
}

// compileSelector refuses what Kubernetes refuses, such as In without values (D80, B34).
func compileSelector(s *policy.LabelSelector) (labels.Selector, error) {
	converted := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, e := range s.MatchExpressions {
		converted.MatchExpressions = append(converted.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
		})
	}
	selector, err := metav1.LabelSelectorAsSelector(converted)
	if err != nil {
		return nil, fmt.Errorf("read selector: %w", err)
	}
	return selector, nil
}

func (s *opaqueServers) equal(other *opaqueServers) bool {
	same := func(a, b opaqueServer) bool { return a.text == b.text && a.port == b.port }
	return slices.EqualFunc(s.pods, other.pods, same) &&
		slices.EqualFunc(s.workloads, other.workloads, same)
}

// pod tells whether a Server makes the pod's port opaque. A port's name in a
// Server stands for the container and host ports of that name.
func (s *opaqueServers) pod(pod *corev1.Pod, port uint32) bool {
	for _, server := range s.pods {
		if server.selector.Matches(labels.Set(pod.Labels)) && server.podPort(pod, port) {
			return true
		}
	}
	return false
}

func (s opaqueServer) podPort(pod *corev1.Pod, port uint32) bool {
	if s.port.Type == intstr.Int {
		return uint32(s.port.IntVal) == port
	}
	for p := range podPorts(pod) {
		if p.Name == s.port.StrVal && (uint32(p.ContainerPort) == port || uint32(p.HostPort) == port) {
			return true
		}
	}
	return false
}

// workload tells whether a Server makes the workload's port opaque.
func (s *opaqueServers) workload(w *workloadv1beta1.ExternalWorkload, port uint32) bool {
	for _, server := range s.workloads {
		if !server.selector.Matches(labels.Set(w.Labels)) {
			continue
		}
		if server.port.Type == intstr.Int {
			if uint32(server.port.IntVal) == port {
				return true
			}
			continue
		}
		for _, p := range w.Spec.Ports {
			if p.Name == server.port.StrVal && uint32(p.Port) == port {
				return true
			}
		}
	}
	return false
}
