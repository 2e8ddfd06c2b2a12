package destination

import (
	"fmt"
	"iter"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// The functions of this file say how a client reaches an endpoint and what it
// calls it: identity, protocol hint and metric labels of a WeightedAddr (D
// sections 1.12 and 1.13). What depends on the client is left out of their
// results: weight, and the label zone_locality.

// tcpAddress is the wire form of a valid address.
func tcpAddress(addr netip.AddrPort) *net.TcpAddress {
	return net.NewTcpAddress(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
}

// weighPod builds the address of a pod. opaque says whether a Server makes the
// port opaque. The error says what a meshed pod's proxy lacks: such a pod has
// no address (D69).
func (m *mesh) weighPod(pod *corev1.Pod, owner owner, addr netip.AddrPort, serverOpaque bool, zone, trustDomain string, say report) (*pb.WeightedAddr, error) {
	port := uint32(addr.Port())
	w := &pb.WeightedAddr{Addr: tcpAddress(addr), MetricLabels: podLabels(pod, owner, zone)}
	controlPlane := pod.Labels[linkerd.ControlPlaneNSLabel]
	if controlPlane == "" {
		return w, nil
	}
	// Both are read in any case, so that what is wrong with them is said as long as it is.
	skipped, opaque := podSkips(pod, port, say), m.podOpaquePorts(pod, say).Contains(port)
	if skipped {
		return w, nil
	}
	w.Http2 = m.http2
	hint, err := m.podHint(pod, port, serverOpaque || opaque)
	if err != nil {
		return nil, err
	}
	w.ProtocolHint = hint
	if trustDomain != "" && controlPlane == m.controllerNamespace {
		w.TlsIdentity = dnsIdentity(linkerd.ServiceAccountIdentity(pod.Spec.ServiceAccountName, pod.Namespace, controlPlane, trustDomain))
	}
	return w, nil
}

func podLabels(pod *corev1.Pod, owner owner, zone string) map[string]string {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	labels := map[string]string{"pod": pod.Name, "serviceaccount": account, "zone": zone}
	labels[owner.label()] = owner.name
	if ns := pod.Labels[linkerd.ControlPlaneNSLabel]; ns != "" {
		labels["control_plane_ns"] = ns
	}
	if hash := pod.Labels[linkerd.PodTemplateHashLabel]; hash != "" {
		labels["pod_template_hash"] = hash
	}
	return labels
}

// podHint is how a meshed pod's port is spoken to.
func (m *mesh) podHint(pod *corev1.Pod, port uint32, opaque bool) (*pb.ProtocolHint, error) {
	proxy := proxyContainer(pod)
	if proxy == nil {
		return nil, fmt.Errorf("pod %s/%s has no container %s", pod.Namespace, pod.Name, linkerd.ProxyContainerName)
	}
	admin, err := listenPort(pod, proxy, linkerd.ProxyAdminAddrEnv)
	if err != nil {
		return nil, err
	}
	control, err := listenPort(pod, proxy, linkerd.ProxyControlAddrEnv)
	if err != nil {
		return nil, err
	}
	hint := m.hint(opaque, m.h2Upgrade)
	// The proxy's own ports are not behind its inbound port (D64, D65, B73).
	if (opaque || m.forceOpaqueTransport) && port != admin && port != control {
		inbound, err := listenPort(pod, proxy, linkerd.ProxyInboundAddrEnv)
		if err != nil {
			return nil, err
		}
		hint.OpaqueTransport = &pb.ProtocolHint_OpaqueTransport{InboundPort: inbound}
	}
	return hint, nil
}

func (m *mesh) hint(opaque, h2 bool) *pb.ProtocolHint {
	hint := &pb.ProtocolHint{}
	if opaque {
		hint.Protocol = &pb.ProtocolHint_Opaque_{Opaque: &pb.ProtocolHint_Opaque{}}
	} else if h2 {
		hint.Protocol = &pb.ProtocolHint_H2_{H2: &pb.ProtocolHint_H2{}}
	}
	return hint
}

// weighWorkload builds the address of an ExternalWorkload. Workloads are
// always meshed. opaque says whether a Server makes the port opaque.
func (m *mesh) weighWorkload(w *workloadv1beta1.ExternalWorkload, owner owner, addr netip.AddrPort, serverOpaque bool, zone string, say report) *pb.WeightedAddr {
	port := uint32(addr.Port())
	opaque := m.workloadOpaquePorts(w, say).Contains(port) || serverOpaque
	hint := m.hint(opaque, true)
	if opaque || m.forceOpaqueTransport {
		hint.OpaqueTransport = &pb.ProtocolHint_OpaqueTransport{InboundPort: workloadInboundPort(w)}
	}
	labels := map[string]string{"external_workload": w.Name, "zone": zone}
	if owner.kind != "" {
		labels[owner.label()] = owner.name
	}
	return &pb.WeightedAddr{
		Addr:         tcpAddress(addr),
		MetricLabels: labels,
		ProtocolHint: hint,
		Http2:        m.http2,
		TlsIdentity: &pb.TlsIdentity{
			Strategy:   &pb.TlsIdentity_UriLikeIdentity_{UriLikeIdentity: &pb.TlsIdentity_UriLikeIdentity{Uri: w.Spec.MeshTLS.Identity}},
			ServerName: &pb.TlsIdentity_DnsLikeIdentity{Name: w.Spec.MeshTLS.ServerName},
		},
	}
}

// workloadInboundPort is where the workload's proxy listens (D75).
func workloadInboundPort(w *workloadv1beta1.ExternalWorkload) uint32 {
	for _, p := range w.Spec.Ports {
		if p.Name == linkerd.ExternalWorkloadProxyPort {
			return uint32(p.Port)
		}
	}
	return linkerd.ProxyInboundPort
}

// weighAddress builds the address of an endpoint that refers to no workload.
// One with an identity is a gateway of another cluster; it has no server name
// (D71, D72).
func (m *mesh) weighAddress(addr netip.AddrPort, gatewayIdentity, authorityOverride string) *pb.WeightedAddr {
	w := &pb.WeightedAddr{Addr: tcpAddress(addr)}
	if authorityOverride != "" {
		w.AuthorityOverride = &pb.AuthorityOverride{AuthorityOverride: authorityOverride}
	}
	if gatewayIdentity == "" {
		return w
	}
	w.Http2 = m.http2
	w.TlsIdentity = dnsIdentity(gatewayIdentity)
	w.TlsIdentity.ServerName = nil
	if m.h2Upgrade {
		w.ProtocolHint = m.hint(false, true)
	}
	return w
}

func dnsIdentity(name string) *pb.TlsIdentity {
	return &pb.TlsIdentity{
		Strategy:   &pb.TlsIdentity_DnsLikeIdentity_{DnsLikeIdentity: &pb.TlsIdentity_DnsLikeIdentity{Name: name}},
		ServerName: &pb.TlsIdentity_DnsLikeIdentity{Name: name},
	}
}

// podSkips tells whether the pod's proxy leaves the port alone (D66).
func podSkips(pod *corev1.Pod, port uint32, say report) bool {
	list, ok := pod.Annotations[linkerd.SkipInboundPortsAnnotation]
	if !ok {
		return false
	}
	set, err := linkerd.ParsePortSet(list, nil)
	if err != nil {
		say.podAnnotation(pod, linkerd.SkipInboundPortsAnnotation, err)
	}
	return set.Contains(port)
}

// podOpaquePorts is the pod's annotated set, even if empty, or else the default (D60-D62).
func (m *mesh) podOpaquePorts(pod *corev1.Pod, say report) linkerd.PortSet {
	list, ok := pod.Annotations[linkerd.OpaquePortsAnnotation]
	if !ok {
		return m.opaquePorts
	}
	set, err := linkerd.ParsePortSet(list, func(name string) (port uint16, ok bool) {
		for p := range podPorts(pod) {
			if p.Name != "" && p.Name == name {
				port, ok = uint16(p.ContainerPort), true // the last one wins
			}
		}
		return port, ok
	})
	if err != nil {
		say.podAnnotation(pod, linkerd.OpaquePortsAnnotation, err)
	}
	return set
}

// workloadOpaquePorts is podOpaquePorts of an ExternalWorkload.
func (m *mesh) workloadOpaquePorts(w *workloadv1beta1.ExternalWorkload, say report) linkerd.PortSet {
	list, ok := w.Annotations[linkerd.OpaquePortsAnnotation]
	if !ok {
		return m.opaquePorts
	}
	set, err := linkerd.ParsePortSet(list, func(name string) (port uint16, ok bool) {
		for _, p := range w.Spec.Ports {
			if p.Name != "" && p.Name == name {
				port, ok = uint16(p.Port), true
			}
		}
		return port, ok
	})
	if err != nil {
		say.annotation(workloadObject(w), linkerd.OpaquePortsAnnotation, err)
	}
	return set
}

// podPorts yields the ports of all containers, init containers first.
func podPorts(pod *corev1.Pod) iter.Seq[*corev1.ContainerPort] {
	return func(yield func(*corev1.ContainerPort) bool) {
		for c := range podContainers(pod) {
			for i := range c.Ports {
				if !yield(&c.Ports[i]) {
					return
				}
			}
		}
	}
}

func podContainers(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if !yield(&containers[i]) {
					return
				}
			}
		}
	}
}

// proxyContainer finds the proxy, which may be a native sidecar (D70).
func proxyContainer(pod *corev1.Pod) *corev1.Container {
	for c := range podContainers(pod) {
		if c.Name == linkerd.ProxyContainerName {
			return c
		}
	}
	return nil
}

// listenPort reads the port of an address from the proxy's environment.
func listenPort(pod *corev1.Pod, proxy *corev1.Container, name string) (uint32, error) {
	for _, env := range proxy.Env {
		if env.Name != name {
			continue
		}
		addr, err := netip.ParseAddrPort(env.Value)
		if err != nil {
			return 0, fmt.Errorf("pod %s/%s: %s of container %s: %w", pod.Namespace, pod.Name, name, proxy.Name, err)
		}
		return uint32(addr.Port()), nil
	}
	return 0, fmt.Errorf("pod %s/%s: container %s has no %s", pod.Namespace, pod.Name, proxy.Name, name)
}
