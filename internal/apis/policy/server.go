package policy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// ProxyProtocol is the protocol that a Server's port speaks.
type ProxyProtocol string

// The protocols, case-sensitive.
const (
	ProxyProtocolUnknown ProxyProtocol = "unknown"
	ProxyProtocolHTTP1   ProxyProtocol = "HTTP/1"
	ProxyProtocolHTTP2   ProxyProtocol = "HTTP/2"
	ProxyProtocolGRPC    ProxyProtocol = "gRPC"
	ProxyProtocolOpaque  ProxyProtocol = "opaque"
	ProxyProtocolTLS     ProxyProtocol = "TLS"
)

// UnmarshalJSON refuses unknown protocols: an object with one does not decode.
func (p *ProxyProtocol) UnmarshalJSON(data []byte) error {
	return unmarshalEnum(data, "proxyProtocol", p, ProxyProtocolUnknown, ProxyProtocolHTTP1, ProxyProtocolHTTP2,
		ProxyProtocolGRPC, ProxyProtocolOpaque, ProxyProtocolTLS)
}

// CheckPort returns an error if port is a number outside 1 to 65535.
func CheckPort(port intstr.IntOrString) error {
	if port.Type == intstr.Int && (port.IntVal < 1 || port.IntVal > 65535) {
		return fmt.Errorf("port: %d is not within 1 to 65535", port.IntVal)
	}
	return nil
}
