package dns

import (
	"net/netip"
	"slices"
	"strings"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// endpoint is a ready address of a Service.
type endpoint struct {
	// host is the label that tells it from the Service's others.
	host  string
	addr  netip.Addr
	ports []discoveryv1.EndpointPort
}

func (z zone) serviceName(namespace, service string) string {
	return service + "." + namespace + ".svc." + z.domain
}

// findService finds SERVICE.NAMESPACE.svc, and what is below: HOST or _PORT._PROTOCOL.
func (z zone) findService(owner string, labels []string) name {
	switch len(labels) {
	case 0:
		return name{exists: true}
	case 1:
		return name{exists: some(state.List(z.reader, state.Services, labels[0]))}
	}
	at := len(labels) - 2
	service, ok := state.Get(z.reader, state.Services, labels[at+1], labels[at])
	if !ok {
		return name{}
	}
	below := labels[:at]
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName && len(below) == 0:
		return external(owner, service)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return name{}
	case len(below) == 0:
		return z.whole(owner, service)
	case len(below) == 1 && strings.HasPrefix(below[0], "_"):
		// There is nothing but ports below.
		found := z.ports(owner, service, func(port, protocol string) bool { return port != "" && below[0] == "_"+strings.ToLower(protocol) })
		return name{exists: found.exists}
	case len(below) == 1:
		var found name
		for _, e := range z.endpoints(service) {
			if e.host == below[0] {
				found.add(address(owner, e.addr))
			}
		}
		return found
	case len(below) == 2:
		return z.ports(owner, service, func(port, protocol string) bool {
			return port != "" && below[0] == "_"+port && below[1] == "_"+strings.ToLower(protocol)
		})
	}
	return name{}
}

// external is an alias of what is elsewhere. Something that looks like an
// address has none that could be a name.
func external(owner string, service *corev1.Service) name {
	found := name{exists: true}
	if _, err := netip.ParseAddr(service.Spec.ExternalName); err != nil {
		found.add(&mdns.CNAME{Hdr: header(owner, mdns.TypeCNAME), Target: mdns.Fqdn(service.Spec.ExternalName)})
	}
	return found
}

// whole is what there is at the name of a Service. A headless one that has no
// endpoints does not exist.
func (z zone) whole(owner string, service *corev1.Service) name {
	found := z.ports(owner, service, func(string, string) bool { return true })
	if headless(service) {
		for _, e := range z.endpoints(service) {
			found.add(address(owner, e.addr))
		}
	} else {
		found.exists = true
		for _, addr := range clusterIPs(service) {
			found.add(address(owner, addr))
		}
	}
	return found
}

// ports are the SRV records of those ports of a Service that are meant.
func (z zone) ports(owner string, service *corev1.Service, meant func(port, protocol string) bool) name {
	var found name
	add := func(target string, port int32, addrs ...netip.Addr) {
		found.add(&mdns.SRV{Hdr: header(owner, mdns.TypeSRV), Port: uint16(port), Target: target})
		for _, addr := range addrs {
			found.targets = append(found.targets, address(target, addr))
		}
	}
	self := z.serviceName(service.Namespace, service.Name)
	if headless(service) {
		for _, e := range z.endpoints(service) {
			for _, port := range e.ports {
				if port.Port != nil && meant(value(port.Name), string(value(port.Protocol))) {
					add(e.host+"."+self, *port.Port, e.addr)
				}
			}
		}
	} else {
		for _, port := range service.Spec.Ports {
			if meant(port.Name, string(port.Protocol)) {
				add(self, port.Port, clusterIPs(service)...)
			}
		}
	}
	return found
}

func (n *name) add(record mdns.RR) {
	n.exists = true
	n.records = append(n.records, record)
}

func value[T any](pointer *T) (v T) {
	if pointer != nil {
		v = *pointer
	}
	return v
}

func headless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

func clusterIPs(service *corev1.Service) []netip.Addr {
	ips := service.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{service.Spec.ClusterIP}
	}
	var addrs []netip.Addr
	for _, ip := range ips {
		if addr, err := netip.ParseAddr(ip); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// endpoints are the ready ones of a Service, or all if it says so.
func (z zone) endpoints(service *corev1.Service) []endpoint {
	var found []endpoint
	for slice := range state.By(z.reader, state.EndpointSlices, state.SlicesByService, service.Namespace+"/"+service.Name) {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if !isReady(e) && !service.Spec.PublishNotReadyAddresses {
				continue
			}
			for _, text := range e.Addresses {
				addr, err := netip.ParseAddr(text)
				if err != nil {
					continue
				}
				host := value(e.Hostname)
				if host == "" {
					host = dashed(addr)
				}
				found = append(found, endpoint{host, addr, slice.Ports})
			}
		}
	}
	return found
}

// isReady takes one of which nothing is said for ready.
func isReady(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// reverse answers who has an address: a Service, or endpoints with a hostname.
// It is false if that is nobody here.
func (z zone) reverse(q mdns.Question) (answer, bool) {
	addr, ok := reversed(q.Name)
	if !ok {
		return answer{}, false
	}
	var names []string
	for service := range state.By(z.reader, state.Services, state.ServicesByIP, addr.String()) {
		names = append(names, z.serviceName(service.Namespace, service.Name))
	}
	if len(names) == 0 {
		names = z.hosts(addr)
	}
	var a answer
	if q.Qtype == mdns.TypePTR {
		for _, target := range names {
			a.records = append(a.records, &mdns.PTR{Hdr: header(q.Name, mdns.TypePTR), Ptr: target})
		}
	}
	return a, len(names) > 0
}

// hosts are the names of ready endpoints with a hostname and an address. No
// index has them: few ask.
func (z zone) hosts(addr netip.Addr) []string {
	var names []string
	for slice := range state.All(z.reader, state.EndpointSlices) {
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if value(e.Hostname) != "" && isReady(e) && slices.Contains(e.Addresses, addr.String()) {
				names = append(names, *e.Hostname+"."+z.serviceName(slice.Namespace, state.SliceService(slice)))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// reversed reads the name that stands for an address in questions for PTR records.
func reversed(owner string) (netip.Addr, bool) {
	owner = mdns.CanonicalName(owner)
	if text, ok := strings.CutSuffix(owner, ".in-addr.arpa."); ok {
		labels := strings.Split(text, ".")
		slices.Reverse(labels)
		addr, err := netip.ParseAddr(strings.Join(labels, "."))
		return addr, err == nil && addr.Is4()
	}
	text, ok := strings.CutSuffix(owner, ".ip6.arpa.")
	nibbles := strings.Split(text, ".")
	if !ok || len(nibbles) != 32 {
		return netip.Addr{}, false
	}
	slices.Reverse(nibbles)
	var b strings.Builder
	for i, nibble := range nibbles {
		if i > 0 && i%4 == 0 {
			b.WriteByte(':')
		}
		b.WriteString(nibble)
	}
	addr, err := netip.ParseAddr(b.String())
	return addr, err == nil
}
