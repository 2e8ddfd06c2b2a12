package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/destination"
	"github.com/linkerd-lite/linkerd-lite/destination/extworkloads"
	"github.com/linkerd-lite/linkerd-lite/destination/links"
	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	pbdestination "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	pbidentity "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
	pbinbound "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	pboutbound "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/inbound"
	"github.com/linkerd-lite/linkerd-lite/policy/outbound"
	policystatus "github.com/linkerd-lite/linkerd-lite/policy/status"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// controlPlaneListeners are the addresses of the control plane's APIs.
var controlPlaneListeners = []string{"destination", "policy", "identity", "shim-inbound"}

// controlPlane is what reads an API server, whichever it is,
// and answers proxies.
type controlPlane struct {
	config   *ControlPlaneConfig
	log      *slog.Logger
	registry *prometheus.Registry
	// problems gets what is wrong with objects.
	problems  *problems.Table
	listeners listeners
	// inside are listeners of the same names that pods reach; there may be none.
	inside []listeners
	client *rest.Config
	kube   kubernetes.Interface
	// holder is the identity under which Leases are held, by leases.
	holder string
	leases kubernetes.Interface
	// identity is nil where no certificates are issued.
	identity *identity.Service

	state  *state.State
	graph  *view.Graph
	routes *gateway.Routes
	// inbound is there once the plane's parts are.
	inbound *inbound.Server
}

// newControlPlane builds the State and its views. It starts nothing.
func newControlPlane(c controlPlane) (*controlPlane, error) {
	st, err := state.New(state.Config{
		Cluster:         state.LocalCluster,
		Kinds:           state.LocalKinds(c.config.EnableEndpointSlices),
		SecretNamespace: c.config.ControlPlaneNamespace,
		Log:             c.log.With("part", "state"),
		Problems:        c.problems,
		Registerer:      c.registry,
	})
	if err != nil {
		return nil, err
	}
	c.state, c.graph = st, view.NewGraph(st)
	c.routes = gateway.New(st)
	return &c, nil
}

// planeParts are the parts of the control plane that others wait for.
type planeParts struct{ stateRead, viewsUp, serving part }

// add adds what reads the API server once after is ready, and serves what
// proxies ask once the authority is.
func (c *controlPlane) add(list *partList, after, authority part) (planeParts, error) {
	linked, err := links.New(links.Config{
		State: c.state, EndpointSlices: c.config.EnableEndpointSlices,
		Log: c.log.With("part", "links"), Registerer: c.registry,
	})
	if err != nil {
		return planeParts{}, err
	}
	shim, err := c.newShim(linked)
	if err != nil {
		return planeParts{}, err
	}
	read := list.add("state", func(ctx context.Context, ready func()) error { return c.state.Run(ctx, c.client, ready) }, after)
	views := list.add("views", atOnce(c.graph.Run), read)
	following := list.add("links", atOnce(linked.Run), read)
	return planeParts{read, views, list.add("controlplane", shim.Run, read, views, following, authority)}, nil
}

// newShim builds the servers that answer proxies.
func (c *controlPlane) newShim(linked *links.Links) (*proxyshim.Shim, error) {
	metrics, err := grpcserver.NewMetrics(c.registry)
	if err != nil {
		return nil, err
	}
	shim, err := c.shim(metrics)
	if err != nil {
		return nil, err
	}
	log := c.log.With("part", "controlplane")
	destinationServer, err := destination.New(destination.Config{
		State: c.state, Graph: c.graph, Links: linked, Stopping: shim.Server(linkerd.DestinationPort).Done(),
		Log: log.With("api", "destination"), Registerer: c.registry, Settings: c.config.Settings,
	})
	if err != nil {
		return nil, err
	}
	policyPort, policyLog := shim.Server(linkerd.PolicyPort), log.With("api", "policy")
	inboundServer, err := inbound.New(inbound.Config{
		State: c.state, Graph: c.graph, Routes: c.routes, Stopping: policyPort.Done(),
		Log: policyLog, Registerer: c.registry, Settings: c.config.Settings,
	})
	if err != nil {
		return nil, err
	}
	c.inbound = inboundServer
	outboundServer, err := outbound.New(outbound.Config{
		State: c.state, Graph: c.graph, Routes: c.routes, Stopping: policyPort.Done(),
		Log: policyLog, Registerer: c.registry, Settings: c.config.Settings,
	})
	if err != nil {
		return nil, err
	}
	pbdestination.RegisterDestinationServer(shim.Server(linkerd.DestinationPort), destinationServer)
	pboutbound.RegisterOutboundPoliciesServer(policyPort, outboundServer)
	pbinbound.RegisterInboundServerPoliciesServer(policyPort, inboundServer)
	if c.identity != nil {
		pbidentity.RegisterIdentityServer(shim.Server(linkerd.IdentityPort), c.identity)
	}
	return shim, nil
}

// found are the problems of objects, with those of Servers that have ports in
// vain, which are looked for now. The control plane may be nil.
func (c *controlPlane) found(table *problems.Table) []problems.Problem {
	list := table.List()
	if c == nil || c.inbound == nil {
		return list
	}
	return append(list, c.inbound.Overlaps()...)
}

// describe is what the control plane holds, for people. It may be nil.
func (c *controlPlane) describe(table string) (any, error) {
	if c == nil {
		return nil, errors.New("there is no control plane: it was left out")
	}
	return diagnostics.Describe(c.state, c.graph, table)
}

// oddServer says of a Server that is about to be stored which ports it or
// another one will have in vain.
func (c *controlPlane) oddServer(request *admissionv1.AdmissionRequest) []string {
	if c.inbound == nil || request.Kind.Kind != state.Servers.GVK.Kind {
		return nil
	}
	server := &policyv1beta3.Server{}
	if json.Unmarshal(request.Object.Raw, server) != nil {
		return nil // of another shape than the newest
	}
	server.Namespace, server.Name = cmp.Or(server.Namespace, request.Namespace), cmp.Or(server.Name, request.Name)
	var warnings []string
	for _, p := range c.inbound.OverlapsOf(server) {
		warnings = append(warnings, p.String())
	}
	return warnings
}

// addWriters adds what writes to the API server. They may lead once those in
// after are ready.
func (c *controlPlane) addWriters(list *partList, after ...part) error {
	patches, err := dynamic.NewForConfig(c.client)
	if err != nil {
		return fmt.Errorf("client for status: %w", err)
	}
	writer, err := policystatus.New(policystatus.Config{
		State: c.state, Graph: c.graph, Routes: c.routes, Client: patches, Kube: c.leases,
		Identity: c.holder, DeploymentName: c.config.PolicyDeployment,
		PatchTimeout: time.Duration(c.config.PatchTimeoutMs) * time.Millisecond,
		Log:          c.log.With("part", "status"), Registerer: c.registry, Settings: c.config.Settings,
	})
	if err != nil {
		return err
	}
	list.add("status", atOnce(writer.Run), after...)
	if !c.config.EnableEndpointSlices {
		return nil
	}
	workloads, err := extworkloads.New(extworkloads.Config{
		State: c.state, Graph: c.graph, Client: c.kube, Leases: c.leases.CoordinationV1(), Namespace: c.config.ControlPlaneNamespace,
		Identity: c.holder, Log: c.log.With("part", "workloads"), Registerer: c.registry,
	})
	if err != nil {
		return err
	}
	list.add("workloads", atOnce(workloads.Run), after...)
	return nil
}

// shim builds the servers of the three APIs and of the direct path.
func (c *controlPlane) shim(metrics *grpcserver.Metrics) (*proxyshim.Shim, error) {
	account := func(name string) string {
		return linkerd.ServiceAccountIdentity(name, c.config.ControlPlaneNamespace, c.config.ControlPlaneNamespace, c.config.TrustDomain)
	}
	config := proxyshim.Config{
		Services: []proxyshim.Service{
			{Port: linkerd.DestinationPort, ServerName: account("linkerd-destination"), ClientCertificate: c.config.RequireClientCertificates,
				Naming: grpcserver.ControllerNaming, Listeners: c.listening("destination")},
			{Port: linkerd.PolicyPort, ServerName: account("linkerd-destination"), ClientCertificate: c.config.RequireClientCertificates,
				Naming: grpcserver.PolicyNaming, Listeners: c.listening("policy")},
		},
		InboundPort: linkerd.ProxyInboundPort,
		GRPC:        metrics,
		Registerer:  c.registry,
		Clock:       clock.RealClock{},
		Log:         c.log.With("part", "controlplane"),
	}
	if c.identity != nil {
		config.Issuer = c.identity
		config.Inbound = c.listening("shim-inbound")
		config.Services = append(config.Services, proxyshim.Service{
			Port: linkerd.IdentityPort, ServerName: account("linkerd-identity"),
			Naming: grpcserver.ControllerNaming, Listeners: c.listening("identity"),
		})
	}
	shim, err := proxyshim.New(config)
	if err != nil {
		return nil, fmt.Errorf("control plane's APIs: %w", err)
	}
	return shim, nil
}

func (c *controlPlane) listening(name string) []net.Listener {
	var all []net.Listener
	for _, from := range append([]listeners{c.listeners}, c.inside...) {
		if l, ok := from[name]; ok {
			all = append(all, l)
		}
	}
	return all
}
