package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// service is a row of the table of Services (cluster section 2).
type service struct {
	Name, Component, PortName string
	Port                      int
	TargetPort                any // number or name
	Headless                  bool
}

// deployment is a workload of the control plane (cluster section 3).
type deployment struct {
	Component     string
	Identity      string
	ProxyVersion  string
	ProxyHost     string
	NativeSidecar bool
	// Process is the IP:PORT at which this component really is, if an endpoint
	// may name it.
	Process    string
	Containers []container
}

type container struct {
	Name, Image, Live string
	Ports             []port
	Admin             int
}

type port struct {
	Name string
	Port int
}

// data is what the templates see.
type data struct {
	Config
	CreatedBy     string
	Values        string
	VersionLabel  string
	TrustRootHash string
	Services      []service
	Deployments   []deployment
}

func newData(c Config) (data, error) {
	values, err := c.values()
	if err != nil {
		return data{}, fmt.Errorf("values of linkerd-config: %w", err)
	}
	hash := sha256.Sum256([]byte(c.TrustAnchors))
	d := data{
		Config: c, CreatedBy: CreatedBy, Values: values,
		// A label takes no plus, which build metadata has.
		VersionLabel:  strings.ReplaceAll(c.Version, "+", "-"),
		TrustRootHash: hex.EncodeToString(hash[:]),
	}
	d.components()
	return d, nil
}

func (d *data) components() {
	destination, policy, destinationProcess := linkerd.DestinationPort, linkerd.PolicyPort, ""
	if reachable(d.Destination) && reachable(d.Policy) && d.Destination.Addr() == d.Policy.Addr() {
		destination, policy, destinationProcess = int(d.Destination.Port()), int(d.Policy.Port()), d.Destination.String()
	}
	identity, identityProcess := linkerd.IdentityPort, ""
	if reachable(d.Identity) {
		identity, identityProcess = int(d.Identity.Port()), d.Identity.String()
	}
	d.Services = []service{
		{"linkerd-dst", "destination", "grpc", linkerd.DestinationPort, destination, false},
		{"linkerd-dst-headless", "destination", "grpc", linkerd.DestinationPort, destination, true},
		{"linkerd-policy", "destination", "grpc", linkerd.PolicyPort, policy, true},
		{"linkerd-sp-validator", "destination", "sp-validator", 443, "sp-validator", false},
		{"linkerd-policy-validator", "destination", "policy-https", 443, "policy-https", false},
		{"linkerd-identity", "identity", "grpc", linkerd.IdentityPort, identity, false},
		{"linkerd-identity-headless", "identity", "grpc", linkerd.IdentityPort, identity, true},
		{"linkerd-proxy-injector", "proxy-injector", "proxy-injector", 443, 8443, false},
	}
	d.Deployments = []deployment{
		{
			Component: "destination", NativeSidecar: true, Process: destinationProcess,
			Containers: []container{
				{"destination", "controller", "/ping", []port{{"dest-grpc", destination}, {"dest-admin", 9996}}, 9996},
				{"sp-validator", "controller", "/ping", []port{{"sp-validator", 8443}, {"spval-admin", 9997}}, 9997},
				{"policy", "policy-controller", "/live", []port{{"policy-grpc", policy}, {"policy-admin", 9990}, {"policy-https", 9443}}, 9990},
			},
		},
		{
			Component: "identity", Process: identityProcess,
			Containers: []container{{"identity", "controller", "/ping", []port{{"ident-grpc", identity}, {"ident-admin", 9990}}, 9990}},
		},
		{
			Component: "proxy-injector", NativeSidecar: true,
			Containers: []container{{"proxy-injector", "controller", "/ping", []port{{"proxy-injector", 8443}, {"injector-admin", 9995}}, 9995}},
		},
	}
	for i := range d.Deployments {
		workload := &d.Deployments[i]
		workload.Identity = linkerd.ServiceAccountIdentity("linkerd-"+workload.Component, d.ControlPlaneNamespace, d.ControlPlaneNamespace, d.TrustDomain)
		workload.ProxyVersion, workload.ProxyHost = d.ProxyVersion, "0.0.0.0"
		if d.EnableIPv6 {
			workload.ProxyHost = "[::]"
		}
	}
}

// reachable reports whether an endpoint may have the address: the API server
// refuses those that mean something else on every host.
func reachable(address netip.AddrPort) bool {
	ip := address.Addr().Unmap()
	return address.IsValid() && address.Port() != 0 &&
		!ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && ip.Zone() == ""
}
