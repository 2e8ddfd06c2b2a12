package containers

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// redirect is what linkerd-init is told to do with the pod's connections. Where
// something else does its work (CNI), it is what the annotations say.
func redirect(pod *corev1.Pod) (*sandbox.Redirect, error) {
	flags := pflag.NewFlagSet("linkerd-init", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	inbound := flags.Uint16("incoming-proxy-port", linkerd.ProxyInboundPort, "")
	outbound := flags.Uint16("outgoing-proxy-port", linkerd.ProxyOutboundPort, "")
	skipInbound := flags.String("inbound-ports-to-ignore", pod.Annotations["config.linkerd.io/skip-inbound-ports"], "")
	skipOutbound := flags.String("outbound-ports-to-ignore", pod.Annotations["config.linkerd.io/skip-outbound-ports"], "")
	subnets := flags.String("subnets-to-ignore", pod.Annotations["config.linkerd.io/skip-subnets"], "")
	for _, container := range pod.Spec.InitContainers {
		if container.Name == "linkerd-init" {
			if err := flags.Parse(container.Args); err != nil {
				return nil, fmt.Errorf("arguments of linkerd-init: %w", err)
			}
		}
	}
	r := &sandbox.Redirect{Inbound: *inbound, Outbound: *outbound, Own: proxyPorts(pod)}
	var err error
	if r.SkipInbound, err = portRanges(*skipInbound); err != nil {
		return nil, fmt.Errorf("inbound ports to skip: %w", err)
	}
	if r.SkipOutbound, err = portRanges(*skipOutbound); err != nil {
		return nil, fmt.Errorf("outbound ports to skip: %w", err)
	}
	for _, text := range fields(*subnets) {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("subnets to skip: %w", err)
		}
		r.SkipSubnets = append(r.SkipSubnets, subnet)
	}
	return r, nil
}

// proxyPorts are those at which the pod's proxy answers itself: for the control
// of taps, and for probes and metrics.
func proxyPorts(pod *corev1.Pod) []uint16 {
	ports := []uint16{linkerd.ProxyControlPort}
	admin := uint16(linkerd.ProxyAdminPort)
	for _, port := range proxyOf(pod).Ports {
		if port.Name == "linkerd-admin" {
			admin = uint16(port.ContainerPort)
		}
	}
	return append(ports, admin)
}

// portRanges reads 80,8000-8080.
func portRanges(list string) ([]sandbox.PortRange, error) {
	var ranges []sandbox.PortRange
	for _, text := range fields(list) {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, sandbox.PortRange{First: uint16(from), Last: uint16(to)})
	}
	return ranges, nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
