package dataplane

import (
	"net/netip"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

func targetLabels(addr netip.AddrPort) prometheus.Labels {
	return prometheus.Labels{
		"target_addr": addr.String(), "target_ip": addr.Addr().String(), "target_port": strconv.Itoa(int(addr.Port())),
	}
}

func directionLabels(direction string) prometheus.Labels {
	return prometheus.Labels{"direction": direction}
}

// clientLabels are those of TLS as a server sees it.
func clientLabels(c verdict.Client) prometheus.Labels {
	if c.TLS {
		return prometheus.Labels{"tls": "true", "client_id": c.Identity}
	}
	reason := "no_tls_from_remote"
	if c.Addr.IsLoopback() {
		reason = "loopback"
	}
	return prometheus.Labels{"tls": "no_identity", "no_tls_reason": reason}
}

// serverLabels are those of TLS as a client sees it.
func serverLabels(identity string) prometheus.Labels {
	if identity != "" {
		return prometheus.Labels{"tls": "true", "server_id": identity}
	}
	return prometheus.Labels{"tls": "no_identity", "no_tls_reason": "not_provided_by_service_discovery"}
}

func policyLabels(s *verdict.Server, port uint16) prometheus.Labels {
	return prometheus.Labels{"srv_group": s.Group, "srv_kind": s.Kind, "srv_name": s.Name, "srv_port": strconv.Itoa(int(port))}
}

// metaLabels describe an object in labels of inbound metrics.
func metaLabels(prefix string, m *meta.Metadata) prometheus.Labels {
	r := m.GetResource()
	if r == nil {
		return prometheus.Labels{prefix + "_group": "", prefix + "_kind": "default", prefix + "_name": m.GetDefault()}
	}
	return prometheus.Labels{prefix + "_group": r.GetGroup(), prefix + "_kind": r.GetKind(), prefix + "_name": r.GetName()}
}

// referenceLabels describe an object in labels of outbound metrics.
func referenceLabels(prefix string, m *meta.Metadata) prometheus.Labels {
	labels := metaLabels(prefix, m)
	r := m.GetResource()
	labels[prefix+"_namespace"] = r.GetNamespace()
	if prefix == "route" {
		return labels
	}
	labels[prefix+"_section_name"] = r.GetSection()
	labels[prefix+"_port"] = ""
	if r.GetPort() != 0 {
		labels[prefix+"_port"] = strconv.Itoa(int(r.GetPort()))
	}
	return labels
}
