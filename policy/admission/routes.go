package admission

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	gatewayapi "github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

func rules() *field.Path { return spec().Child("rules") }

func checkPolicyHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := decode(o, &route); p != nil {
		return p
	}
	return first(
		func() *Problem { return undecodable(gatewayapi.CheckHTTP(route.Rules, true)) },
		func() *Problem { return checkParents(o, route.ParentRefs, settings.CheckHTTP) },
		func() *Problem { return checkHTTPRules(o, route.Rules, true) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
				return checkTimeouts(at.Child("timeouts"), rule.Timeouts)
			})
		},
	)
}

func checkHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := decode(o, &route); p != nil {
		return p
	}
	return first(
		func() *Problem { return undecodable(gatewayapi.CheckHTTP(route.Rules, false)) },
		func() *Problem { return checkParents(o, route.ParentRefs, settings.CheckHTTP) },
		func() *Problem { return checkHTTPRules(o, route.Rules, false) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.HTTPBackendRef) *Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

// checkHTTPRules wants matches and filters that can be converted for proxies.
// Filters of a type that Linkerd does not support are let through.
func checkHTTPRules(o *object, list []gatewayv1.HTTPRouteRule, own bool) *Problem {
	return each(rules(), list, func(at *field.Path, rule gatewayv1.HTTPRouteRule) *Problem {
		if p := each(at.Child("matches"), rule.Matches, func(at *field.Path, match gatewayv1.HTTPRouteMatch) *Problem {
			converted, err := gateway.HTTPMatch(at, match)
			if err == nil {
				o.doubt(gateway.Doubts(at, converted))
			}
			return unfit(err)
		}); p != nil {
			return p
		}
		for i, backend := range rule.BackendRefs {
			o.warnOfFilters(at.Child("backendRefs").Index(i).Child("filters"), backend.Filters, false)
		}
		o.warnOfFilters(at.Child("filters"), rule.Filters, own)
		return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.HTTPRouteFilter) *Problem {
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

// doubt takes over what cannot be decided.
func (o *object) doubt(doubts field.ErrorList) {
	for _, doubt := range doubts {
		o.warnings = append(o.warnings, unfit(doubt))
	}
}

func checkGRPCRoute(o *object) *Problem {
	var route gatewayv1.GRPCRouteSpec
	if p := decode(o, &route); p != nil {
		return p
	}
	return first(
		func() *Problem { return undecodable(gatewayapi.CheckGRPC(route.Rules)) },
		func() *Problem { return checkParents(o, route.ParentRefs, settings.CheckGRPC) },
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) *Problem {
				return checkGRPCRule(o, at, rule)
			})
		},
		func() *Problem {
			return each(rules(), route.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) *Problem {
				return each(at.Child("backendRefs"), rule.BackendRefs, func(at *field.Path, backend gatewayv1.GRPCBackendRef) *Problem {
					return checkBackend(at, backend.BackendObjectReference)
				})
			})
		},
	)
}

func checkGRPCRule(o *object, at *field.Path, rule gatewayv1.GRPCRouteRule) *Problem {
	if p := each(at.Child("matches"), rule.Matches, func(at *field.Path, match gatewayv1.GRPCRouteMatch) *Problem {
		converted, err := gateway.GRPCMatch(at, match)
		if err == nil {
			o.doubt(gateway.Doubts(at, converted))
		}
		return unfit(err)
	}); p != nil {
		return p
	}
	return each(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.GRPCRouteFilter) *Problem {
		_, err := gateway.GRPCFilter(at, filter)
		return supported(err)
	})
}

// supported is the problem of a filter, unless that is its type.
func supported(err *field.Error) *Problem {
	if err != nil && err.Type == field.ErrorTypeNotSupported {
		return nil
	}
	return unfit(err)
}

func checkTLSRoute(o *object) *Problem {
	var route gatewayv1alpha2.TLSRouteSpec
	if p := decode(o, &route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return unfit(gateway.CheckSingleRule(len(route.Rules)))
}

func checkTCPRoute(o *object) *Problem {
	var route gatewayv1alpha2.TCPRouteSpec
	if p := decode(o, &route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return unfit(gateway.CheckSingleRule(len(route.Rules)))
}

// checkParents wants a port for each EgressNetwork. For parents of outbound traffic the annotations must parse.
func checkParents(o *object, parents []gatewayv1.ParentReference, annotations func(map[string]string) error) *Problem {
	outbound := false
	for i, parent := range parents {
		if parent.Kind == nil {
			continue
		}
		switch gateway.KindOf(parent.Group, *parent.Kind) {
		case gateway.EgressNetwork:
			outbound = true
			if parent.Port == nil {
				return problem(spec().Child("parentRefs").Index(i).Child("port"), "an EgressNetwork as parent needs a port")
			}
		case gateway.Service:
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
	if at := (*gatewayapi.Error)(nil); errors.As(err, &at) {
		return &Problem{Field: at.Field, Message: at.Message, undecodable: true}
	}
	return nil
}
