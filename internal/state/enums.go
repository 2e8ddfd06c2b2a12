package state

import (
	"fmt"
	"slices"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	policyv1beta3 "github.com/linkerd-lite/linkerd-lite/internal/apis/policy/v1beta3"
)

// checkValues refuses a route that uses a value of an enum which this version
// of the Gateway API does not have: it says something that nobody here
// understands, and so does not decode (B69, P311). The Gateway API's Go types
// take any text. Linkerd's own types check theirs while they decode.
func checkValues(obj any) error {
	switch route := obj.(type) {
	case *gatewayv1.HTTPRoute:
		return checkHTTPRules(route.Spec.Rules, []gatewayv1.HTTPRouteFilterType{
			gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			gatewayv1.HTTPRouteFilterRequestRedirect, gatewayv1.HTTPRouteFilterURLRewrite,
			gatewayv1.HTTPRouteFilterRequestMirror, gatewayv1.HTTPRouteFilterExtensionRef,
		})
	case *policyv1beta3.HTTPRoute:
		if err := checkPolicyRules(route.Spec.Rules); err != nil {
			return err
		}
		return checkHTTPRules(route.Spec.Rules, []gatewayv1.HTTPRouteFilterType{
			gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			gatewayv1.HTTPRouteFilterRequestRedirect,
		})
	case *gatewayv1.GRPCRoute:
		return checkGRPCRules(route.Spec.Rules)
	}
	return nil
}

// checkPolicyRules refuses what Linkerd's own HTTPRoute cannot hold although its
// schema takes it: filters without what their type says, and timeouts that Go
// does not understand (crds 6). Those of the Gateway API are judged where they
// are used.
func checkPolicyRules(rules []gatewayv1.HTTPRouteRule) error {
	for i, rule := range rules {
		filters := slices.Clone(rule.Filters)
		for _, backend := range rule.BackendRefs {
			filters = append(filters, backend.Filters...)
		}
		for _, filter := range filters {
			if filter.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && filter.RequestHeaderModifier == nil ||
				filter.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && filter.ResponseHeaderModifier == nil ||
				filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect && filter.RequestRedirect == nil {
				return fmt.Errorf("spec.rules[%d]: a filter has no field for %q", i, filter.Type)
			}
		}
		if rule.Timeouts == nil {
			continue
		}
		for _, timeout := range []*gatewayv1.Duration{rule.Timeouts.Request, rule.Timeouts.BackendRequest} {
			if timeout == nil || *timeout == "" {
				continue
			}
			if _, err := time.ParseDuration(string(*timeout)); err != nil {
				return fmt.Errorf("spec.rules[%d].timeouts: %w", i, err)
			}
		}
	}
	return nil
}

func checkHTTPRules(rules []gatewayv1.HTTPRouteRule, filterTypes []gatewayv1.HTTPRouteFilterType) error {
	for i, rule := range rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		for j, match := range rule.Matches {
			if err := checkHTTPMatch(match); err != nil {
				return fmt.Errorf("%s.matches[%d]: %w", at, j, err)
			}
		}
		for j, filter := range rule.Filters {
			if err := checkHTTPFilter(filter, filterTypes); err != nil {
				return fmt.Errorf("%s.filters[%d]: %w", at, j, err)
			}
		}
		for j, backend := range rule.BackendRefs {
			for k, filter := range backend.Filters {
				if err := checkHTTPFilter(filter, filterTypes); err != nil {
					return fmt.Errorf("%s.backendRefs[%d].filters[%d]: %w", at, j, k, err)
				}
			}
		}
	}
	return nil
}

func checkHTTPMatch(match gatewayv1.HTTPRouteMatch) error {
	if match.Path != nil {
		if err := oneOf("path.type", match.Path.Type, gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchRegularExpression); err != nil {
			return err
		}
	}
	for _, header := range match.Headers {
		if err := oneOf("headers.type", header.Type, gatewayv1.HeaderMatchExact, gatewayv1.HeaderMatchRegularExpression); err != nil {
			return err
		}
	}
	for _, param := range match.QueryParams {
		if err := oneOf("queryParams.type", param.Type, gatewayv1.QueryParamMatchExact, gatewayv1.QueryParamMatchRegularExpression); err != nil {
			return err
		}
	}
	return oneOf("method", match.Method,
		gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost, gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete,
		gatewayv1.HTTPMethodConnect, gatewayv1.HTTPMethodOptions, gatewayv1.HTTPMethodTrace, gatewayv1.HTTPMethodPatch)
}

func checkHTTPFilter(filter gatewayv1.HTTPRouteFilter, types []gatewayv1.HTTPRouteFilterType) error {
	if err := oneOf("type", &filter.Type, types...); err != nil {
		return err
	}
	if redirect := filter.RequestRedirect; redirect != nil {
		if err := oneOf("requestRedirect.scheme", redirect.Scheme, "http", "https"); err != nil {
			return err
		}
		if err := checkPathModifier("requestRedirect.path.type", redirect.Path); err != nil {
			return err
		}
	}
	if rewrite := filter.URLRewrite; rewrite != nil {
		return checkPathModifier("urlRewrite.path.type", rewrite.Path)
	}
	return nil
}

func checkPathModifier(field string, path *gatewayv1.HTTPPathModifier) error {
	if path == nil {
		return nil
	}
	return oneOf(field, &path.Type, gatewayv1.FullPathHTTPPathModifier, gatewayv1.PrefixMatchHTTPPathModifier)
}

func checkGRPCRules(rules []gatewayv1.GRPCRouteRule) error {
	for i, rule := range rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		for j, match := range rule.Matches {
			if match.Method != nil {
				if err := oneOf("method.type", match.Method.Type, gatewayv1.GRPCMethodMatchExact, gatewayv1.GRPCMethodMatchRegularExpression); err != nil {
					return fmt.Errorf("%s.matches[%d]: %w", at, j, err)
				}
			}
			for _, header := range match.Headers {
				if err := oneOf("headers.type", header.Type, gatewayv1.HeaderMatchExact, gatewayv1.HeaderMatchRegularExpression); err != nil {
					return fmt.Errorf("%s.matches[%d]: %w", at, j, err)
				}
			}
		}
		filters := slices.Clone(rule.Filters)
		for _, backend := range rule.BackendRefs {
			filters = append(filters, backend.Filters...)
		}
		for _, filter := range filters {
			if err := oneOf("filters.type", &filter.Type,
				gatewayv1.GRPCRouteFilterRequestHeaderModifier, gatewayv1.GRPCRouteFilterResponseHeaderModifier,
				gatewayv1.GRPCRouteFilterRequestMirror, gatewayv1.GRPCRouteFilterExtensionRef); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	return nil
}

func oneOf[T ~string](field string, value *T, allowed ...T) error {
	if value == nil || slices.Contains(allowed, *value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not one of %q", field, *value, allowed)
}
