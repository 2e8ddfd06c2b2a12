package admission

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	gatewayapi "github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

func rules() *field.Path { return spec().Child("rules") }

func checkPolicyHTTPRoute(o *object) *problems.Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := decodeSpec(o, &route); p != nil {
		return p
	}
	return first(
		func() *problems.Problem { return o.undecoded(gatewayapi.CheckHTTP(route.Rules, true)) },
		func() *problems.Problem { return checkParents(o, route.ParentRefs, settings.CheckHTTP) },
		func() *problems.Problem { return checkHTTPRules(o, route.Rules, true) },
		func() *problems.Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *problems.Problem {
				return checkTimeouts(at.Child("timeouts"), rule.Timeouts)
			})
		},
	)
}

func checkHTTPRoute(o *object) *problems.Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := decodeSpec(o, &route); p != nil {
		return p
	}
	return first(
		func() *problems.Problem { return o.undecoded(gatewayapi.CheckHTTP(route.Rules, false)) },
		func() *problems.Problem { return checkParents(o, route.ParentRefs, settings.CheckHTTP) },
		func() *problems.Problem { return checkHTTPRules(o, route.Rules, false) },
		func() *problems.Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *problems.Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.HTTPBackendRef) *problems.Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

// checkHTTPRules wants matches and filters that can be converted for proxies.
// Filters of a type that Linkerd does not support are let through.
func checkHTTPRules(o *object, list []gatewayv1.HTTPRouteRule, own bool) *problems.Problem {
	return each(rules(), list, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *problems.Problem {
		if p := each(at.Child("matches"), rule.Matches, func(at *field.Path, match gatewayv1.HTTPRouteMatch) *problems.Problem {
			converted, err := gateway.HTTPMatch(at, match)
			if err == nil {
				o.doubts(gateway.Doubts(at, converted))
			}
			return problems.Of(err)
		}); p != nil {
			return p
		}
		for i, backend := range rule.BackendRefs {
			o.warnOfFilters(at.Child("backendRefs").Index(i).Child("filters"), backend.Filters, false)
		}
		o.warnOfFilters(at.Child("filters"), rule.Filters, own)
		return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.HTTPRouteFilter) *problems.Problem {
			_, err := gateway.HTTPFilter(at, filter, own)
			return supported(err)
		})
	})
}

// warnOfFilters names filters of one type that carry the field of another.
func (o *object) warnOfFilters(at *field.Path, filters []gatewayv1.HTTPRouteFilter, own bool) {
	for i, filter := range filters {
		if counts := gateway.HTTPFilterField(filter, own); counts != "" && counts != gateway.HTTPFilterField(filter, true) {
			o.warn(at.Index(i), "is of the type %s, but has the field %s, which is what counts", filter.Type, counts)
		}
	}
}

// doubts takes over what cannot be decided.
func (o *object) doubts(list field.ErrorList) {
	for _, err := range list {
		warning := problems.Of(err)
		warning.Severity = problems.Warning
		o.warnings = append(o.warnings, *warning)
	}
}

func checkGRPCRoute(o *object) *problems.Problem {
	var route gatewayv1.GRPCRouteSpec
	if p := decodeSpec(o, &route); p != nil {
		return p
	}
	return first(
		func() *problems.Problem { return o.undecoded(gatewayapi.CheckGRPC(route.Rules)) },
		func() *problems.Problem { return checkParents(o, route.ParentRefs, settings.CheckGRPC) },
		func() *problems.Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) *problems.Problem {
				return checkGRPCRule(o, at, rule)
			})
		},
		func() *problems.Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) *problems.Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.GRPCBackendRef) *problems.Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

func checkGRPCRule(o *object, at *field.Path, rule gatewayv1.GRPCRouteRule) *problems.Problem {
	if p := each(at.Child("matches"), rule.Matches, func(at *field.Path, match gatewayv1.GRPCRouteMatch) *problems.Problem {
		converted, err := gateway.GRPCMatch(at, match)
		if err == nil {
			o.doubts(gateway.Doubts(at, converted))
		}
		return problems.Of(err)
	}); p != nil {
		return p
	}
	return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.GRPCRouteFilter) *problems.Problem {
		_, err := gateway.GRPCFilter(at, filter)
		return supported(err)
	})
}

// supported is the problem of a filter, unless that is its type.
func supported(err *field.Error) *problems.Problem {
	if err != nil && err.Type == field.ErrorTypeNotSupported {
		return nil
	}
	return problems.Of(err)
}

func checkTLSRoute(o *object) *problems.Problem {
	var route gatewayv1alpha2.TLSRouteSpec
	if p := decodeSpec(o, &route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return problems.Of(gateway.CheckSingleRule(len(route.Rules)))
}

func checkTCPRoute(o *object) *problems.Problem {
	var route gatewayv1alpha2.TCPRouteSpec
	if p := decodeSpec(o, &route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return problems.Of(gateway.CheckSingleRule(len(route.Rules)))
}

// checkParents wants a port for each EgressNetwork. For parents of outbound traffic the annotations must parse.
func checkParents(o *object, parents []gatewayv1.ParentReference, annotations func(map[string]string) error) *problems.Problem {
	outbound := false
	for i, parent := range parents {
		if parent.Kind == nil {
			continue
		}
		switch gateway.KindOf(parent.Group, *parent.Kind) {
		case gateway.EgressNetwork:
			outbound = true
			if parent.Port == nil {
				return problems.At(spec().Child("parentRefs").Index(i).Child("port"), "an EgressNetwork as parent needs a port")
			}
		case gateway.Service:
			outbound = true
		}
	}
	if outbound && annotations != nil {
		if err := annotations(o.annotations); err != nil {
			return problems.At(field.NewPath("metadata", "annotations"), "%v", err)
		}
	}
	return nil
}

// checkBackend wants a port for each Service. Kinds are compared as they are spelt here.
func checkBackend(at *field.Path, backend gatewayv1.BackendObjectReference) *problems.Problem {
	if backend.Group != nil && !slices.Contains([]gatewayv1.Group{"", "core"}, *backend.Group) {
		return nil
	}
	if backend.Kind != nil && *backend.Kind != "Service" {
		return nil
	}
	if backend.Port == nil || *backend.Port == 0 {
		return problems.At(at.Child("port"), "invalid backendRef: a Service needs a port")
	}
	return nil
}

// checkTimeouts looks at those of a policy HTTPRoute's rule. Zero is not taken for unlimited: a positive backendRequest
// exceeds it.
func checkTimeouts(at *field.Path, given *gatewayv1.HTTPRouteTimeouts) *problems.Problem {
	if given == nil {
		return nil
	}
	request, backendRequest := duration(given.Request), duration(given.BackendRequest)
	switch {
	case backendRequest < 0:
		return problems.At(at.Child("backendRequest"), "%v is negative", backendRequest)
	case request < 0:
		return problems.At(at.Child("request"), "%v is negative", request)
	case given.Request != nil && backendRequest > request:
		return problems.At(at.Child("backendRequest"), "%v exceeds request, which is %v", backendRequest, request)
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

// undecoded is the problem of a route that cannot be decoded.
func (o *object) undecoded(err *field.Error) *problems.Problem {
	if err == nil {
		return nil
	}
	return o.unreadable(err.Field, err.ErrorBody())
}
