package destination

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// defaultPort is the port of an authority that names none (D02).
const defaultPort = 80

// authority is the host and port of a request's path.
type authority struct {
	host string
	port uint32
}

// parseAuthority splits path into host and port (D section 1.3). The port is
// 1 to 65535 in any spelling that strconv.Atoi takes. The host is not looked
// into.
func parseAuthority(path string) (authority, error) {
	if !strings.Contains(path, ":") {
		return authority{host: path, port: defaultPort}, nil
	}
	host, text, err := net.SplitHostPort(path)
	if err != nil {
		return authority{}, fmt.Errorf("invalid destination: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return authority{}, fmt.Errorf("invalid port %s: %w", text, err)
	}
	if port < 1 || port > 65535 {
		return authority{}, fmt.Errorf("invalid port %d", port)
	}
	return authority{host: host, port: uint32(port)}, nil
}

// ip returns the host as an address, nil if it is none. Zones do not parse.
func (a authority) ip() net.IP { return net.ParseIP(a.host) }

// serviceName is the name of a Service, or of one of its instances.
type serviceName struct {
	// hostname is the instance; "" means all of them.
	hostname           string
	service, namespace string
}

// parseServiceName reads <service>.<namespace>.svc.<domain>, which an instance's
// name may precede. Labels are compared case-sensitively and not validated:
// odd ones fail the lookup (D04, D08).
func parseServiceName(host, clusterDomain string) (serviceName, error) {
	labels := strings.Split(host, ".")
	suffix := append([]string{"svc"}, strings.Split(clusterDomain, ".")...)
	n := len(labels) - len(suffix)
	if n < 0 || !slices.Equal(labels[n:], suffix) {
		return serviceName{}, fmt.Errorf("name %s does not match cluster domain %s", host, clusterDomain)
	}
	switch n {
	case 2:
		return serviceName{service: labels[0], namespace: labels[1]}, nil
	case 3:
		return serviceName{hostname: labels[0], service: labels[1], namespace: labels[2]}, nil
	}
	return serviceName{}, fmt.Errorf("invalid k8s service %s", host)
}
