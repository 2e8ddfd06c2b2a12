package gateway

import (
	"fmt"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Error is why a route cannot be decoded.
type Error struct {
	// Field is a path such as spec.rules[0].filters[0].type.
	Field string
	// Message says what is wrong with it.
	Message string
}

// Error is the field with what is wrong.
func (e *Error) Error() string { return e.Field + ": " + e.Message }

// CheckHTTP returns an *Error if a route has a value of an enum that its
// version of the Gateway API does not know: it says something that nobody here
// understands (B69, P311). The Go types take any text. If the route is one of
// Linkerd's own, its timeouts must be durations as Go writes them, and each
// filter of a rule must have the content of its type, which its schema does not
// ask for (crds 6), while other content is nothing; filters of its backends are
// the Gateway API's (G2).
func CheckHTTP(rules []gatewayv1.HTTPRouteRule, own bool) error {
	var c checker
	for i, rule := range rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		for j, match := range rule.Matches {
			at := fmt.Sprintf("%s.matches[%d]", at, j)
			if match.Path != nil {
				c.word(at+".path.type", (*string)(match.Path.Type), "Exact PathPrefix RegularExpression")
			}
			for k, header := range match.Headers {
				c.word(fmt.Sprintf("%s.headers[%d].type", at, k), (*string)(header.Type), matchTypes)
			}
			for k, param := range match.QueryParams {
				c.word(fmt.Sprintf("%s.queryParams[%d].type", at, k), (*string)(param.Type), matchTypes)
			}
			c.word(at+".method", (*string)(match.Method), "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH")
		}
		c.filters(at, rule.Filters, own)
		for j, backend := range rule.BackendRefs {
			c.filters(fmt.Sprintf("%s.backendRefs[%d]", at, j), backend.Filters, false)
		}
		if own && rule.Timeouts != nil {
			c.duration(at+".timeouts.request", rule.Timeouts.Request)
			c.duration(at+".timeouts.backendRequest", rule.Timeouts.BackendRequest)
		}
	}
	return c.result()
}

// CheckGRPC is CheckHTTP for a GRPCRoute.
func CheckGRPC(rules []gatewayv1.GRPCRouteRule) error {
	var c checker
	filters := func(at string, filters []gatewayv1.GRPCRouteFilter) {
		for i := range filters {
			c.word(fmt.Sprintf("%s.filters[%d].type", at, i), (*string)(&filters[i].Type), "RequestHeaderModifier ResponseHeaderModifier RequestMirror ExtensionRef")
		}
	}
	for i, rule := range rules {
		at := fmt.Sprintf("spec.rules[%d]", i)
		for j, match := range rule.Matches {
			at := fmt.Sprintf("%s.matches[%d]", at, j)
			if match.Method != nil {
				c.word(at+".method.type", (*string)(match.Method.Type), matchTypes)
			}
			for k, header := range match.Headers {
				c.word(fmt.Sprintf("%s.headers[%d].type", at, k), (*string)(header.Type), matchTypes)
			}
		}
		filters(at, rule.Filters)
		for j, backend := range rule.BackendRefs {
			filters(fmt.Sprintf("%s.backendRefs[%d]", at, j), backend.Filters)
		}
	}
	return c.result()
}

const matchTypes = "Exact RegularExpression"

// checker keeps the first problem.
type checker struct{ first *Error }

func (c *checker) result() error {
	if c.first == nil {
		return nil
	}
	return c.first
}

func (c *checker) fail(field, format string, args ...any) {
	if c.first == nil {
		c.first = &Error{field, fmt.Sprintf(format, args...)}
	}
}

// word wants one of some words, if any is given.
func (c *checker) word(field string, value *string, words string) {
	if value == nil {
		return
	}
	for word := range strings.FieldsSeq(words) {
		if word == *value {
			return
		}
	}
	c.fail(field, "%q is not one of %q", *value, strings.Fields(words))
}

func (c *checker) duration(field string, text *gatewayv1.Duration) {
	if text == nil || *text == "" {
		return
	}
	if _, err := time.ParseDuration(string(*text)); err != nil {
		c.fail(field, "%v", err)
	}
}

// filters looks at filters. The type of tagged ones decides what they are.
func (c *checker) filters(at string, filters []gatewayv1.HTTPRouteFilter, tagged bool) {
	words := "RequestHeaderModifier ResponseHeaderModifier RequestRedirect"
	if !tagged {
		words += " RequestMirror URLRewrite ExtensionRef"
	}
	for i := range filters {
		filter := &filters[i]
		at := fmt.Sprintf("%s.filters[%d]", at, i)
		c.word(at+".type", (*string)(&filter.Type), words)
		if tagged && (filter.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && filter.RequestHeaderModifier == nil ||
			filter.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && filter.ResponseHeaderModifier == nil ||
			filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect && filter.RequestRedirect == nil) {
			c.fail(at+".type", "the filter has no field for %q", filter.Type)
		}
		if redirect := filter.RequestRedirect; redirect != nil && (!tagged || filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect) {
			c.word(at+".requestRedirect.scheme", redirect.Scheme, "http https")
			c.path(at+".requestRedirect.path.type", redirect.Path)
		}
		if rewrite := filter.URLRewrite; rewrite != nil && !tagged {
			c.path(at+".urlRewrite.path.type", rewrite.Path)
		}
	}
}

func (c *checker) path(field string, path *gatewayv1.HTTPPathModifier) {
	if path != nil {
		c.word(field, (*string)(&path.Type), "ReplaceFullPath ReplacePrefixMatch")
	}
}
