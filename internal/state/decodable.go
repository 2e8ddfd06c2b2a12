package state

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/strict"
)

// decodable refuses an object that Linkerd's policy controller could not
// decode: one that lacks something, where its definition does not see to that
// (G8), and routes with a value that nobody knows. Linkerd's other kinds check
// their values themselves.
func decodable(raw *unstructured.Unstructured, typed any) *field.Error {
	switch raw.GroupVersionKind().Group {
	case policy.Group, policy.GatewayGroup:
		if err := strict.CheckSpec(raw.Object, typed); err != nil {
			return err
		}
	}
	switch route := typed.(type) {
	case *gatewayv1.HTTPRoute:
		return gateway.CheckHTTP(route.Spec.Rules, false)
	case *policyv1beta3.HTTPRoute:
		return gateway.CheckHTTP(route.Spec.Rules, true)
	case *gatewayv1.GRPCRoute:
		return gateway.CheckGRPC(route.Spec.Rules)
	}
	return nil
}
