package admission

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

func rules() *field.Path { return spec().Child("rules") }

func checkPolicyHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	for i, parent := range route.ParentRefs {
		if parent.Name == "" {
			return problem(spec().Child("parentRefs").Index(i).Child("name"), "missing")
		}
	}
	return first(
		func() *Problem { return undecodable(gateway.CheckHTTP(route.Rules, true)) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.HTTPAnnotations) },
		func() *Problem { return checkHTTPRules(&route, true) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
				return checkTimeouts(at.Child("timeouts"), rule.Timeouts)
			})
		},
	)
}

func checkHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	return first(
		func() *Problem { return undecodable(gateway.CheckHTTP(route.Rules, false)) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.HTTPAnnotations) },
		func() *Problem { return checkHTTPRules(&route, false) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.HTTPBackendRef) *Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

func checkHTTPRules(route *gatewayv1.HTTPRouteSpec, own bool) *Problem {
	return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
		if p := each(at.Child("matches"), rule.Matches, checkHTTPMatch); p != nil {
			return p
		}
		return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.HTTPRouteFilter) *Problem {
			return checkHTTPFilter(at, filter, own)
		})
	})
}

func checkGRPCRoute(o *object) *Problem {
	var route gatewayv1.GRPCRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	return first(
		func() *Problem { return undecodable(gateway.CheckGRPC(route.Rules)) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.GRPCAnnotations) },
		func() *Problem { return each(rules(), route.Rules, checkGRPCRule) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) *Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.GRPCBackendRef) *Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

func checkGRPCRule(at *field.Path, rule gatewayv1.GRPCRouteRule) *Problem {
	if p := each(at.Child("matches"), rule.Matches, checkGRPCMatch); p != nil {
		return p
	}
	return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.GRPCRouteFilter) *Problem {
		return checkHTTPFilter(at, gatewayv1.HTTPRouteFilter{
			RequestHeaderModifier: filter.RequestHeaderModifier, ResponseHeaderModifier: filter.ResponseHeaderModifier,
		}, false)
	})
}

func checkTLSRoute(o *object) *Problem {
	var route gatewayv1alpha2.TLSRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return checkSingleRule(len(route.Rules))
}

func checkTCPRoute(o *object) *Problem {
	var route gatewayv1alpha2.TCPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return checkSingleRule(len(route.Rules))
}

func checkSingleRule(count int) *Problem {
	if count != 1 {
		return problem(rules(), "there must be a single rule, not %d", count)
	}
	return nil
}

// checkParents wants a port for each EgressNetwork. For parents of outbound traffic the annotations must parse.
func checkParents(o *object, parents []gatewayv1.ParentReference, annotations func(map[string]string) error) *Problem {
	outbound := false
	for i, parent := range parents {
		switch {
		case parentTargets(parent, policy.Group, "EgressNetwork"):
			outbound = true
			if parent.Port == nil {
				return problem(spec().Child("parentRefs").Index(i).Child("port"), "an EgressNetwork as parent needs a port")
			}
		case parentTargets(parent, "", "Service"):
			outbound = true
		}
	}
	if outbound && annotations != nil {
		if err := annotations(o.annotations); err != nil {
			return problem(field.NewPath("metadata", "annotations"), "%v", err)
		}
	}
	return nil
}

func parentTargets(parent gatewayv1.ParentReference, group, kind string) bool {
	if parent.Kind == nil {
		return false
	}
	ref := policy.LocalTargetRef{Kind: string(*parent.Kind)}
	if parent.Group != nil {
		ref.Group = string(*parent.Group)
	}
	return ref.Targets(group, kind)
}

// checkBackend wants a port for each Service. Kinds are compared as they are spelt here.
func checkBackend(at *field.Path, backend gatewayv1.BackendObjectReference) *Problem {
	if backend.Group != nil && !slices.Contains([]gatewayv1.Group{"", "core"}, *backend.Group) {
		return nil
	}
	if backend.Kind != nil && *backend.Kind != "Service" {
		return nil
	}
	if backend.Port == nil || *backend.Port == 0 {
		return problem(at.Child("port"), "invalid backendRef: a Service needs a port")
	}
	return nil
}

// checkTimeouts looks at those of a policy HTTPRoute's rule. Zero is not taken for unlimited: a positive backendRequest
// exceeds it.
func checkTimeouts(at *field.Path, given *gatewayv1.HTTPRouteTimeouts) *Problem {
	if given == nil {
		return nil
	}
	request, backendRequest := duration(given.Request), duration(given.BackendRequest)
	switch {
	case backendRequest < 0:
		return problem(at.Child("backendRequest"), "%v is negative", backendRequest)
	case request < 0:
		return problem(at.Child("request"), "%v is negative", request)
	case given.Request != nil && backendRequest > request:
		return problem(at.Child("backendRequest"), "%v exceeds request, which is %v", backendRequest, request)
	}
	return nil
}

// duration is 0 for nothing; the text has been found to be decodable.
func duration(text *gatewayv1.Duration) time.Duration {
	if text == nil {
		return 0
	}
	value, _ := time.ParseDuration(string(*text))
	return value
}

// undecodable is the problem of a route that cannot be decoded.
func undecodable(err error) *Problem {
	if at := (*gateway.Error)(nil); errors.As(err, &at) {
		return &Problem{Field: at.Field, Message: at.Message, undecodable: true}
	}
	return nil
}
