package kubeproxy

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Forwarder takes what leads where. [sandbox.Sandbox] is one.
type Forwarder interface {
	SetService(ctx context.Context, service sandbox.Service) error
	RemoveService(ctx context.Context, id string) error
}

// Proxy tells a forwarder of Services and their endpoints.
type Proxy struct {
	services *view.Set[serviceKey, []sandbox.Service]
	all      *view.Set[struct{}, table]
	to       Forwarder
	log      *slog.Logger
}

type serviceKey struct{ namespace, name string }

// table has the ports of all Services by their ID. It is immutable.
type table map[string]sandbox.Service

// New makes a Proxy. Addresses in except are left to others who listen there.
func New(graph *view.Graph, to Forwarder, except []netip.AddrPort, log *slog.Logger) *Proxy {
	same := func(a, b []sandbox.Service) bool { return reflect.DeepEqual(a, b) }
	p := &Proxy{to: to, log: log}
	p.services = view.NewSet(graph, "kubeproxy/service", forwarding, same)
	p.all = view.NewSet(graph, "kubeproxy/services", func(r *view.Reader, _ struct{}, _ *table) table {
		all := table{}
		for service := range state.All(r.Reader, state.Services) {
			for _, port := range view.Use(r, p.services, serviceKey{service.Namespace, service.Name}) {
				if !slices.Contains(except, port.Address) {
					all[port.ID] = port
				}
			}
		}
		return all
	}, func(a, b table) bool { return reflect.DeepEqual(a, b) })
	return p
}

// retryAfter is when what the sandbox refused is tried again.
const retryAfter = time.Second

// Run keeps the forwarder up to date until ctx ends.
func (p *Proxy) Run(ctx context.Context) error {
	v := p.all.Acquire(struct{}{})
	defer v.Release()
	done := table{}
	for {
		version := v.Current()
		complete := p.bring(ctx, done, version.Value)
		var retry <-chan time.Time
		if !complete {
			retry = time.After(retryAfter)
		}
		select {
		case <-version.Superseded():
		case <-retry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bring tells of the differences between what is done and what is wanted, and
// keeps account in done. It reports whether nothing was refused.
func (p *Proxy) bring(ctx context.Context, done, wanted table) bool {
	complete := true
	refused := func(id string, err error) {
		complete = false
		if ctx.Err() == nil {
			p.log.Warn("Service is not led to its endpoints, trying on", "service", id, "error", err)
		}
	}
	for id := range maps.Clone(done) {
		if _, is := wanted[id]; is {
			continue
		}
		if err := p.to.RemoveService(ctx, id); err != nil {
			refused(id, err)
			continue
		}
		delete(done, id)
	}
	for id, service := range wanted {
		if old, is := done[id]; is && reflect.DeepEqual(old, service) {
			continue
		}
		if err := p.to.SetService(ctx, service); err != nil {
			refused(id, err)
			continue
		}
		done[id] = service
	}
	return complete
}

// forwarding is what the ports of a Service lead to: ready endpoints, or those that
// still serve while they end, if there are no others.
func forwarding(r *view.Reader, key serviceKey, _ *[]sandbox.Service) []sandbox.Service {
	service, ok := state.Get(r.Reader, state.Services, key.namespace, key.name)
	if !ok || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	slices := state.AppendBy(nil, r.Reader, state.EndpointSlices, state.SlicesByService, key.namespace+"/"+key.name)
	var ports []sandbox.Service
	for _, ip := range service.Spec.ClusterIPs {
		address, err := netip.ParseAddr(ip)
		if err != nil {
			continue // a headless Service
		}
		family := discoveryv1.AddressTypeIPv4
		if address.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		for _, port := range service.Spec.Ports {
			if port.Protocol == corev1.ProtocolSCTP {
				continue
			}
			at := netip.AddrPortFrom(address, uint16(port.Port))
			ports = append(ports, sandbox.Service{
				ID:        fmt.Sprintf("%s/%s:%s/%s", key.namespace, key.name, port.Protocol, at),
				Address:   at,
				UDP:       port.Protocol == corev1.ProtocolUDP,
				Endpoints: endpoints(service, slices, family, port),
			})
		}
	}
	return ports
}

func endpoints(service *corev1.Service, all []*discoveryv1.EndpointSlice, family discoveryv1.AddressType, port corev1.ServicePort) []netip.AddrPort {
	var ready, ending []netip.AddrPort
	for _, slice := range all {
		if slice.AddressType != family {
			continue
		}
		number, ok := portOf(slice, port)
		if !ok {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			address, err := netip.ParseAddr(endpoint.Addresses[0])
			if err != nil {
				continue
			}
			at := netip.AddrPortFrom(address, number)
			switch c := endpoint.Conditions; {
			case c.Ready == nil || *c.Ready || service.Spec.PublishNotReadyAddresses:
				ready = append(ready, at)
			case c.Serving != nil && *c.Serving && c.Terminating != nil && *c.Terminating:
				ending = append(ending, at)
			}
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready)
}

// portOf is the number of a Service's port in a slice, where it goes by its name.
func portOf(slice *discoveryv1.EndpointSlice, port corev1.ServicePort) (uint16, bool) {
	for _, p := range slice.Ports {
		name, protocol := "", corev1.ProtocolTCP
		if p.Name != nil {
			name = *p.Name
		}
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		if name == port.Name && (protocol == port.Protocol || port.Protocol == "" && protocol == corev1.ProtocolTCP) && p.Port != nil {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}
