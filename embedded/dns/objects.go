package dns

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryapply "k8s.io/client-go/applyconfigurations/discovery/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// ServiceNamespace and ServiceName are where a cluster has the Service of its DNS.
	ServiceNamespace = metav1.NamespaceSystem
	ServiceName      = "kube-dns"
	// Port is that of the Service and of its endpoint.
	Port = 53

	fieldManager = "linkerd-lite-dns"
)

// ClusterIP is the address of the Service of DNS: the tenth of the first of the ranges of
// cluster IPs, which have a comma between them.
func ClusterIP(serviceCIDR string) (netip.Addr, error) {
	first, _, _ := strings.Cut(serviceCIDR, ",")
	prefix, err := netip.ParsePrefix(strings.TrimSpace(first))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("range of cluster IPs: %w", err)
	}
	addr := prefix.Masked().Addr()
	for range 10 {
		addr = addr.Next()
	}
	if !prefix.Contains(addr) {
		return netip.Addr{}, fmt.Errorf("range of cluster IPs %s has no tenth address, which is that of DNS", prefix)
	}
	return addr, nil
}

// Objects are the Service of DNS, and the slice with the one address at which it is answered.
func Objects(clusterIP, endpoint netip.Addr) (*coreapply.ServiceApplyConfiguration, *discoveryapply.EndpointSliceApplyConfiguration) {
	service := coreapply.Service(ServiceName, ServiceNamespace).
		WithLabels(map[string]string{"k8s-app": ServiceName, "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}).
		WithSpec(coreapply.ServiceSpec().WithClusterIP(clusterIP.String()).WithClusterIPs(clusterIP.String()))
	family := discoveryv1.AddressTypeIPv4
	if endpoint.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	slice := discoveryapply.EndpointSlice(ServiceName, ServiceNamespace).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: ServiceName, discoveryv1.LabelManagedBy: "linkerd-lite"}).
		WithAddressType(family).
		WithEndpoints(discoveryapply.Endpoint().WithAddresses(endpoint.String()).WithConditions(discoveryapply.EndpointConditions().WithReady(true)))
	for _, port := range []struct {
		name     string
		protocol corev1.Protocol
	}{{"dns", corev1.ProtocolUDP}, {"dns-tcp", corev1.ProtocolTCP}} {
		service.Spec.WithPorts(coreapply.ServicePort().WithName(port.name).WithProtocol(port.protocol).WithPort(Port))
		slice.WithPorts(discoveryapply.EndpointPort().WithName(port.name).WithProtocol(port.protocol).WithPort(Port))
	}
	return service, slice
}

// Publish brings the objects into the API.
func Publish(ctx context.Context, client kubernetes.Interface, clusterIP, endpoint netip.Addr) error {
	service, slice := Objects(clusterIP, endpoint)
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := client.CoreV1().Services(ServiceNamespace).Apply(ctx, service, options); err != nil {
		return fmt.Errorf("write Service %s/%s: %w", ServiceNamespace, ServiceName, err)
	}
	if _, err := client.DiscoveryV1().EndpointSlices(ServiceNamespace).Apply(ctx, slice, options); err != nil {
		return fmt.Errorf("write EndpointSlice %s/%s: %w", ServiceNamespace, ServiceName, err)
	}
	return nil
}

// Withdraw removes what Publish made, and nothing that others made.
func Withdraw(ctx context.Context, client kubernetes.Interface) error {
	slices := client.DiscoveryV1().EndpointSlices(ServiceNamespace)
	stored, err := slices.Get(ctx, ServiceName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && stored.Labels[discoveryv1.LabelManagedBy] != "linkerd-lite" {
		return nil
	}
	if err == nil {
		// The slice goes last: it tells that the Service is ours.
		err = client.CoreV1().Services(ServiceNamespace).Delete(ctx, ServiceName, metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = slices.Delete(ctx, ServiceName, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the Service of DNS: %w", err)
	}
	return nil
}
