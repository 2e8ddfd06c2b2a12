package state

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
)

// decodable refuses a route that Linkerd could not decode. Linkerd's other
// kinds check their values themselves.
func decodable(obj any) error {
	switch route := obj.(type) {
	case *gatewayv1.HTTPRoute:
		return gateway.CheckHTTP(route.Spec.Rules, false)
	case *policyv1beta3.HTTPRoute:
		return gateway.CheckHTTP(route.Spec.Rules, true)
	case *gatewayv1.GRPCRoute:
		return gateway.CheckGRPC(route.Spec.Rules)
	}
	return nil
}
