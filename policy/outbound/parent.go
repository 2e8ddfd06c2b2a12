package outbound

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1alpha1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

// parent is what policy depends on of a Service or an EgressNetwork. Immutable.
type parent struct {
	metav1.Object
	// ips are the cluster IPs of a Service that has ports, in canonical form.
	ips []string
	// ports are the ports that a Service declares.
	ports map[uint16]appProtocol
	// opaque are the ports that are opaque unless they declare something else.
	opaque linkerd.PortSet
	parentSettings

	// deny and networks are those of an EgressNetwork.
	deny     bool
	networks []network
}

// parentSettings are what annotations of a parent say of all its traffic. Messages
// are nil where there is none.
type parentSettings struct {
	timeouts  settings.Timeouts
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

// service derives the parent of a Service.
func (d *deriver) service(service *corev1.Service, _ *parent) (*parent, []problems.Problem) {
	p := &parent{Object: service, ports: map[uint16]appProtocol{}}
	found := d.annotate(p)
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
		return p, found
	}
	for _, ip := range service.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			p.ips = append(p.ips, addr.String())
		}
	}
	return p, found
}

// egressNetwork derives the parent of an EgressNetwork. Its own status
// does not matter.
func (d *deriver) egressNetwork(egress *policyv1alpha1.EgressNetwork, _ *parent) (*parent, []problems.Problem) {
	p := &parent{Object: egress, networks: d.networks(egress.Spec.Networks), deny: egress.Spec.TrafficPolicy != policyv1alpha1.TrafficPolicyAllow}
	found := d.annotate(p)
	p.penalty = nil
	return p, found
}

// annotate reads the annotations. A bad value drops the group that it belongs
// to (policy-outbound 6.1, 7).
func (d *deriver) annotate(p *parent) []problems.Problem {
	values := p.GetAnnotations()
	var found []problems.Problem
	ignored := func(group string, err error) {
		if err != nil {
			found = append(found, problems.Ignored(field.NewPath("metadata", "annotations"), err, "annotations about "+group+" are ignored"))
		}
	}
	p.opaque = d.opaquePorts
	if list, ok := values[linkerd.OpaquePortsAnnotation]; ok {
		var err error
		p.opaque, err = linkerd.ParsePolicyPorts(list)
		ignored("opaque ports", err)
	}
	var err error
	p.timeouts, err = settings.ParseTimeouts(values)
	ignored("timeouts", err)
	p.httpRetry, err = settings.ParseHTTPRetry(values)
	ignored("HTTP retries", err)
	p.grpcRetry, err = settings.ParseGRPCRetry(values)
	ignored("gRPC retries", err)
	p.accrual, err = settings.ParseFailureAccrual(values)
	ignored("failure accrual", err)
	ignored("failure accrual", settings.CheckHonorRetryAfter(values))
	p.penalty, err = settings.ParsePenalty(values)
	ignored("load", err)
	return found
}
