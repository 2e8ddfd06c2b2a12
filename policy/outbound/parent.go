package outbound

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy"
)

// parentKey names what traffic goes to and routes attach to: a Service or an
// EgressNetwork.
type parentKey struct {
	egress          bool
	namespace, name string
}

// String is the key's form in indexes.
func (k parentKey) String() string {
	if k.egress {
		return "egress/" + k.namespace + "/" + k.name
	}
	return "service/" + k.namespace + "/" + k.name
}

// parent is what policy depends on of a Service or an EgressNetwork. Immutable.
type parent struct {
	metav1.Object
	// ips are the cluster IPs of a Service that has ports, in canonical form.
	ips []string
	// ports are the ports that a Service declares.
	ports map[uint16]appProtocol
	// opaque are the ports that are opaque unless they declare something else.
	opaque linkerd.PortSet
	settings
	// problems are what is wrong with the annotations.
	problems []string

	// deny and networks are those of an EgressNetwork.
	deny     bool
	networks []network
}

// settings are what annotations of a parent say of all its traffic. Messages
// are nil where there is none.
type settings struct {
	timeouts  timeouts
	httpRetry *pb.HttpRoute_Retry
	grpcRetry *pb.GrpcRoute_Retry
	accrual   *pb.FailureAccrual
	penalty   *pb.Backend_BalanceP2C_PenaltyPeakEwma
}

// parentsByIP is an index of Services.
var parentsByIP = state.NewIndex(0, "ip", func(p *parent) []string { return p.ips })

// appProtocol is what a port is declared to speak (policy-outbound 3.1).
type appProtocol int

const (
	undeclared appProtocol = iota
	http1
	http2
	// opaque is also what is not known, which is handled in the same way.
	opaque
)

func parseAppProtocol(name *string) appProtocol {
	if name == nil {
		return undeclared
	}
	switch strings.ToLower(*name) {
	case "http":
		return http1
	case "kubernetes.io/h2c":
		return http2
	}
	return opaque
}

// appProtocol is that of a port, which may not be declared. Nothing is known
// of a parent that does not exist.
func (p *parent) appProtocol(port uint16) appProtocol {
	if p == nil {
		return undeclared
	}
	if protocol := p.ports[port]; protocol != undeclared {
		return protocol
	}
	if p.opaque.Contains(uint32(port)) {
		return opaque
	}
	return undeclared
}

func (p *parent) declares(port uint16) bool {
	if p == nil {
		return false
	}
	_, ok := p.ports[port]
	return ok
}

// formService derives the parent of a Service.
func (f *former) formService(service *corev1.Service, previous *parent) *parent {
	p := &parent{Object: service, ports: map[uint16]appProtocol{}}
	f.annotate(p, "Service", previous)
	for _, port := range service.Spec.Ports {
		if port.Port < 1 || port.Port > 65535 {
			continue
		}
		// TCP and UDP may share a number: what either of them declares holds.
		number, protocol := uint16(port.Port), parseAppProtocol(port.AppProtocol)
		if protocol != undeclared || !p.declares(number) {
			p.ports[number] = protocol
		}
	}
	if len(p.ports) == 0 {
		return p
	}
	for _, ip := range service.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			p.ips = append(p.ips, addr.String())
		}
	}
	return p
}

// formEgressNetwork derives the parent of an EgressNetwork. Its own status
// does not matter.
func (f *former) formEgressNetwork(egress *policyv1alpha1.EgressNetwork, previous *parent) *parent {
	p := &parent{Object: egress, networks: f.egressNetworks(egress.Spec.Networks), deny: egress.Spec.TrafficPolicy != policyv1alpha1.TrafficPolicyAllow}
	f.annotate(p, "EgressNetwork", previous)
	p.penalty = nil
	return p
}

// annotate reads the annotations. A bad value drops the group that it belongs
// to (policy-outbound 6.1, 7). What was wrong before is not said again.
func (f *former) annotate(p *parent, kind string, previous *parent) {
	values := p.GetAnnotations()
	ignored := func(group string, err error) {
		if err == nil {
			return
		}
		p.problems = append(p.problems, err.Error())
		if previous == nil || previous.GetUID() != p.GetUID() || !slices.Contains(previous.problems, err.Error()) {
			f.log.Warn("annotations are ignored", "kind", kind, "object", p.GetNamespace()+"/"+p.GetName(), "group", group, "error", err)
		}
	}
	p.opaque = f.opaquePorts
	if list, ok := values[linkerd.OpaquePortsAnnotation]; ok {
		var err error
		p.opaque, err = policy.ParsePorts(list)
		ignored("opaque ports", err)
	}
	var err error
	p.timeouts, err = parseTimeouts(values)
	ignored("timeouts", err)
	p.httpRetry, err = parseHTTPRetry(values)
	ignored("HTTP retries", err)
	p.grpcRetry, err = parseGRPCRetry(values)
	ignored("gRPC retries", err)
	p.accrual, err = parseAccrual(values)
	ignored("failure accrual", err)
	ignored("failure accrual", checkHonorRetryAfter(values))
	p.penalty, err = parsePenalty(values)
	ignored("load", err)
}
