package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The Go types of routes take any text where a route has one of some words. A word that is not known here belongs to a
// version of the Gateway API that is not: such a route is not decoded (B69).

func checkHTTPShape(route *gatewayv1.HTTPRouteSpec) *Problem {
	for i, rule := range route.Rules {
		at := spec().Child("rules").Index(i)
		for j, match := range rule.Matches {
			if p := checkHTTPMatchShape(at.Child("matches").Index(j), match); p != nil {
				return p
			}
		}
		if p := checkHTTPFilterShapes(at.Child("filters"), rule.Filters); p != nil {
			return p
		}
		for j, backend := range rule.BackendRefs {
			if p := checkHTTPFilterShapes(at.Child("backendRefs").Index(j).Child("filters"), backend.Filters); p != nil {
				return p
			}
		}
	}
	return nil
}

func checkHTTPMatchShape(at *field.Path, match gatewayv1.HTTPRouteMatch) *Problem {
	if match.Path != nil {
		if p := oneOf(at.Child("path", "type"), match.Path.Type, gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix,
			gatewayv1.PathMatchRegularExpression); p != nil {
			return p
		}
	}
	if p := checkHeaderShapes(at.Child("headers"), match.Headers); p != nil {
		return p
	}
	for i, param := range match.QueryParams {
		if p := oneOf(at.Child("queryParams").Index(i).Child("type"), param.Type, gatewayv1.QueryParamMatchExact,
			gatewayv1.QueryParamMatchRegularExpression); p != nil {
			return p
		}
	}
	return oneOf(at.Child("method"), match.Method, gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost,
		gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete, gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions,
		gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch)
}

func checkHeaderShapes(at *field.Path, headers []gatewayv1.HTTPHeaderMatch) *Problem {
	for i, header := range headers {
		if p := oneOf(at.Index(i).Child("type"), header.Type, gatewayv1.HeaderMatchExact, gatewayv1.HeaderMatchRegularExpression); p != nil {
			return p
		}
	}
	return nil
}

func checkHTTPFilterShapes(at *field.Path, filters []gatewayv1.HTTPRouteFilter) *Problem {
	for i, filter := range filters {
		at := at.Index(i)
		if p := oneOf(at.Child("type"), &filter.Type, gatewayv1.HTTPRouteFilterRequestHeaderModifier,
			gatewayv1.HTTPRouteFilterResponseHeaderModifier, gatewayv1.HTTPRouteFilterRequestRedirect,
			gatewayv1.HTTPRouteFilterRequestMirror, gatewayv1.HTTPRouteFilterURLRewrite, gatewayv1.HTTPRouteFilterExtensionRef); p != nil {
			return p
		}
		if filter.RequestRedirect != nil && filter.RequestRedirect.Path != nil {
			if p := checkPathModifier(at.Child("requestRedirect", "path", "type"), filter.RequestRedirect.Path); p != nil {
				return p
			}
		}
		if filter.URLRewrite != nil && filter.URLRewrite.Path != nil {
			if p := checkPathModifier(at.Child("urlRewrite", "path", "type"), filter.URLRewrite.Path); p != nil {
				return p
			}
		}
	}
	return nil
}

func checkPathModifier(at *field.Path, modifier *gatewayv1.HTTPPathModifier) *Problem {
	return oneOf(at, &modifier.Type, gatewayv1.FullPathHTTPPathModifier, gatewayv1.PrefixMatchHTTPPathModifier)
}

func checkGRPCShape(route *gatewayv1.GRPCRouteSpec) *Problem {
	for i, rule := range route.Rules {
		at := spec().Child("rules").Index(i)
		for j, match := range rule.Matches {
			at := at.Child("matches").Index(j)
			for k, header := range match.Headers {
				if p := oneOf(at.Child("headers").Index(k).Child("type"), header.Type, gatewayv1.HeaderMatchExact,
					gatewayv1.HeaderMatchRegularExpression); p != nil {
					return p
				}
			}
			if match.Method != nil {
				if p := oneOf(at.Child("method", "type"), match.Method.Type, gatewayv1.GRPCMethodMatchExact,
					gatewayv1.GRPCMethodMatchRegularExpression); p != nil {
					return p
				}
			}
		}
		if p := checkGRPCFilterShapes(at.Child("filters"), rule.Filters); p != nil {
			return p
		}
		for j, backend := range rule.BackendRefs {
			if p := checkGRPCFilterShapes(at.Child("backendRefs").Index(j).Child("filters"), backend.Filters); p != nil {
				return p
			}
		}
	}
	return nil
}

func checkGRPCFilterShapes(at *field.Path, filters []gatewayv1.GRPCRouteFilter) *Problem {
	for i, filter := range filters {
		if p := oneOf(at.Index(i).Child("type"), &filter.Type, gatewayv1.GRPCRouteFilterRequestHeaderModifier,
			gatewayv1.GRPCRouteFilterResponseHeaderModifier, gatewayv1.GRPCRouteFilterRequestMirror,
			gatewayv1.GRPCRouteFilterExtensionRef); p != nil {
			return p
		}
	}
	return nil
}

// tagged reduces a policy route's filter to the body that its type names: there the type decides.
func tagged(at *field.Path, filter gatewayv1.HTTPRouteFilter) (gatewayv1.HTTPRouteFilter, *Problem) {
	out := gatewayv1.HTTPRouteFilter{Type: filter.Type}
	missing := false
	switch at = at.Child("type"); filter.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		out.RequestHeaderModifier, missing = filter.RequestHeaderModifier, filter.RequestHeaderModifier == nil
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		out.ResponseHeaderModifier, missing = filter.ResponseHeaderModifier, filter.ResponseHeaderModifier == nil
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		out.RequestRedirect, missing = filter.RequestRedirect, filter.RequestRedirect == nil
	default:
		return out, unreadable(at, "%q is not possible here", filter.Type)
	}
	if missing {
		return out, unreadable(at, "the filter has no field for %q", filter.Type)
	}
	return out, nil
}

// oneOf wants one of some words, if any is given.
func oneOf[T ~string](at *field.Path, value *T, words ...T) *Problem {
	if value == nil || slices.Contains(words, *value) {
		return nil
	}
	return unreadable(at, "%q is not one of %q", *value, words)
}
