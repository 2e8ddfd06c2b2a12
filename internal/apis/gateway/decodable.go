package gateway

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// CheckHTTP returns an error if a route has a value of an enum that its
// version of the Gateway API does not know: it says something that nobody here
// understands (B69, P311). The Go types take any text. If the route is one of
// Linkerd's own, its timeouts must be durations as Go writes them, and each
// filter of a rule must have the content of its type, which its schema does not
// ask for (crds 6), while other content is nothing; filters of its backends are
// the Gateway API's (G2).
func CheckHTTP(rules []gatewayv1.HTTPRouteRule, own bool) *field.Error {
	var c checker
	for i, rule := range rules {
		at := field.NewPath("spec", "rules").Index(i)
		for j, match := range rule.Matches {
			at := at.Child("matches").Index(j)
			if match.Path != nil {
				c.word(at.Child("path", "type"), (*string)(match.Path.Type), "Exact PathPrefix RegularExpression")
			}
			for k, header := range match.Headers {
				c.word(at.Child("headers").Index(k).Child("type"), (*string)(header.Type), matchTypes)
			}
			for k, param := range match.QueryParams {
				c.word(at.Child("queryParams").Index(k).Child("type"), (*string)(param.Type), matchTypes)
			}
			c.word(at.Child("method"), (*string)(match.Method), "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH")
		}
		c.filters(at, rule.Filters, own)
		for j, backend := range rule.BackendRefs {
			c.filters(at.Child("backendRefs").Index(j), backend.Filters, false)
		}
		if own && rule.Timeouts != nil {
			c.duration(at.Child("timeouts", "request"), rule.Timeouts.Request)
			c.duration(at.Child("timeouts", "backendRequest"), rule.Timeouts.BackendRequest)
		}
	}
	return c.first
}

// CheckGRPC is CheckHTTP for a GRPCRoute.
func CheckGRPC(rules []gatewayv1.GRPCRouteRule) *field.Error {
	var c checker
	filters := func(at *field.Path, filters []gatewayv1.GRPCRouteFilter) {
		for i := range filters {
			c.word(at.Child("filters").Index(i).Child("type"), (*string)(&filters[i].Type), "RequestHeaderModifier ResponseHeaderModifier RequestMirror ExtensionRef")
		}
	}
	for i, rule := range rules {
		at := field.NewPath("spec", "rules").Index(i)
		for j, match := range rule.Matches {
			at := at.Child("matches").Index(j)
			if match.Method != nil {
				c.word(at.Child("method", "type"), (*string)(match.Method.Type), matchTypes)
			}
			for k, header := range match.Headers {
				c.word(at.Child("headers").Index(k).Child("type"), (*string)(header.Type), matchTypes)
			}
		}
		filters(at, rule.Filters)
		for j, backend := range rule.BackendRefs {
			filters(at.Child("backendRefs").Index(j), backend.Filters)
		}
	}
	return c.first
}

const matchTypes = "Exact RegularExpression"

// checker keeps the first problem.
type checker struct{ first *field.Error }

func (c *checker) fail(err *field.Error) {
	if c.first == nil {
		c.first = err
	}
}

// word wants one of some words, if any is given.
func (c *checker) word(at *field.Path, value *string, words string) {
	if value == nil {
		return
	}
	for word := range strings.FieldsSeq(words) {
		if word == *value {
			return
		}
	}
	c.fail(field.NotSupported(at, *value, strings.Fields(words)))
}

func (c *checker) duration(at *field.Path, text *gatewayv1.Duration) {
	if text == nil || *text == "" {
		return
	}
	if _, err := time.ParseDuration(string(*text)); err != nil {
		c.fail(field.Invalid(at, string(*text), err.Error()))
	}
}

// filters looks at filters. The type of tagged ones decides what they are.
func (c *checker) filters(at *field.Path, filters []gatewayv1.HTTPRouteFilter, tagged bool) {
	words := "RequestHeaderModifier ResponseHeaderModifier RequestRedirect"
	if !tagged {
		words += " RequestMirror URLRewrite ExtensionRef"
	}
	for i := range filters {
		filter := &filters[i]
		at := at.Child("filters").Index(i)
		c.word(at.Child("type"), (*string)(&filter.Type), words)
		if tagged && (filter.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && filter.RequestHeaderModifier == nil ||
			filter.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && filter.ResponseHeaderModifier == nil ||
			filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect && filter.RequestRedirect == nil) {
			c.fail(field.Invalid(at.Child("type"), string(filter.Type), "the filter has no field of that type"))
		}
		if redirect := filter.RequestRedirect; redirect != nil && (!tagged || filter.Type == gatewayv1.HTTPRouteFilterRequestRedirect) {
			c.word(at.Child("requestRedirect", "scheme"), redirect.Scheme, "http https")
			c.path(at.Child("requestRedirect", "path", "type"), redirect.Path)
		}
		if rewrite := filter.URLRewrite; rewrite != nil && !tagged {
			c.path(at.Child("urlRewrite", "path", "type"), rewrite.Path)
		}
	}
}

func (c *checker) path(at *field.Path, path *gatewayv1.HTTPPathModifier) {
	if path != nil {
		c.word(at, (*string)(&path.Type), "ReplaceFullPath ReplacePrefixMatch")
	}
}
