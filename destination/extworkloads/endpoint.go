package extworkloads

import (
	"net"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// ready is the workload's Ready condition; without one it is not ready.
func ready(ew *workloadv1beta1.ExternalWorkload) bool {
	for _, condition := range ew.Status.Conditions {
		if condition.Type == workloadv1beta1.WorkloadConditionReady {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

// addressesOf are the workload's addresses of a family.
func addressesOf(ew *workloadv1beta1.ExternalWorkload, family discoveryv1.AddressType) []string {
	var addresses []string
	for _, ip := range ew.Spec.WorkloadIPs {
		parsed := net.ParseIP(ip.IP)
		if parsed == nil {
			continue
		}
		if isV4 := parsed.To4() != nil; isV4 == (family == discoveryv1.AddressTypeIPv4) {
			addresses = append(addresses, ip.IP)
		}
	}
	return addresses
}

// portsOf resolves the Service's target ports on the workload. A port that the
// workload does not declare with the same protocol is left out.
func portsOf(service *corev1.Service, ew *workloadv1beta1.ExternalWorkload) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, port := range service.Spec.Ports {
		number, ok := targetPort(port, ew)
		if !ok {
			continue
		}
		protocol := protocolOf(port.Protocol)
		ports = append(ports, discoveryv1.EndpointPort{
			Name:        ptr.To(port.Name),
			Port:        ptr.To(number),
			Protocol:    &protocol,
			AppProtocol: port.AppProtocol,
		})
	}
	return ports
}

func targetPort(port corev1.ServicePort, ew *workloadv1beta1.ExternalWorkload) (int32, bool) {
	target := port.TargetPort
	if target.Type == intstr.Int && target.IntVal == 0 {
		target = intstr.FromInt32(port.Port)
	}
	for _, declared := range ew.Spec.Ports {
		if protocolOf(declared.Protocol) != protocolOf(port.Protocol) {
			continue
		}
		if target.Type == intstr.Int && declared.Port == target.IntVal || target.Type == intstr.String && declared.Name == target.StrVal {
			return declared.Port, true
		}
	}
	return 0, false
}

func protocolOf(protocol corev1.Protocol) corev1.Protocol {
	if protocol == "" {
		return corev1.ProtocolTCP
	}
	return protocol
}

func endpointOf(service *corev1.Service, ew *workloadv1beta1.ExternalWorkload, addresses []string) discoveryv1.Endpoint {
	isReady := ready(ew)
	endpoint := discoveryv1.Endpoint{
		Addresses:  addresses,
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(isReady), Serving: ptr.To(isReady), Terminating: ptr.To(false)},
		TargetRef: &corev1.ObjectReference{
			Kind: "ExternalWorkload", Namespace: ew.Namespace, Name: ew.Name, UID: ew.UID,
		},
	}
	if zone := zoneOf(ew); zone != "" {
		endpoint.Zone = &zone
	}
	if headless(service) {
		endpoint.Hostname = ptr.To(ew.Name)
	}
	return endpoint
}

func headless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

// familiesOf are the address families that a Service's endpoints have: those
// of its spec, or both.
func familiesOf(service *corev1.Service) []discoveryv1.AddressType {
	if len(service.Spec.IPFamilies) == 0 {
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	}
	var families []discoveryv1.AddressType
	for _, family := range service.Spec.IPFamilies {
		families = append(families, discoveryv1.AddressType(family))
	}
	return families
}

func zoneOf(ew *workloadv1beta1.ExternalWorkload) string { return ew.Labels[linkerd.TopologyZoneLabel] }
