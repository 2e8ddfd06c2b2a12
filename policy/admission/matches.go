package admission

import (
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	convert "github.com/linkerd-lite/linkerd-lite/policy/routes"
)

// checkHTTPMatch checks that a match can be converted for proxies.
func checkHTTPMatch(at *field.Path, match gatewayv1.HTTPRouteMatch) *Problem {
	if match.Path != nil {
		if p := checkPath(at.Child("path", "value"), match.Path); p != nil {
			return p
		}
	}
	for i, header := range match.Headers {
		regular := header.Type != nil && *header.Type == gatewayv1.HeaderMatchRegularExpression
		if p := checkHeaderMatch(at.Child("headers").Index(i), string(header.Name), header.Value, regular); p != nil {
			return p
		}
	}
	for i, param := range match.QueryParams {
		if param.Type != nil && *param.Type == gatewayv1.QueryParamMatchRegularExpression {
			if p := checkRegex(at.Child("queryParams").Index(i).Child("value"), param.Value); p != nil {
				return p
			}
		}
	}
	return nil
}

func checkPath(at *field.Path, match *gatewayv1.HTTPPathMatch) *Problem {
	value := "/"
	if match.Value != nil {
		value = *match.Value
	}
	if match.Type != nil && *match.Type == gatewayv1.PathMatchRegularExpression {
		return checkRegex(at, value)
	}
	return checkAbsolute(at, value)
}

func checkAbsolute(at *field.Path, path string) *Problem {
	if !strings.HasPrefix(path, "/") {
		return problem(at, "the path %q does not begin with a slash", path)
	}
	return nil
}

func checkRegex(at *field.Path, text string) *Problem {
	if err := convert.Expression(text); err != nil {
		return problem(at, "%q does not compile: %v", text, err)
	}
	return nil
}

func checkHeaderMatch(at *field.Path, name, value string, regular bool) *Problem {
	if p := checkHeaderName(at.Child("name"), name); p != nil {
		return p
	}
	if regular {
		return checkRegex(at.Child("value"), value)
	}
	return checkHeaderValue(at.Child("value"), value)
}

func checkHeaderName(at *field.Path, name string) *Problem {
	if !httpguts.ValidHeaderFieldName(name) {
		return problem(at, "%q is no header name", name)
	}
	return nil
}

// checkHeaderValue allows visible ASCII, space and tab.
func checkHeaderValue(at *field.Path, value string) *Problem {
	for _, char := range []byte(value) {
		if char != '\t' && (char < 0x20 || char > 0x7e) {
			return problem(at, "%q is no header value: it has the character %q", value, char)
		}
	}
	return nil
}

func checkGRPCMatch(at *field.Path, match gatewayv1.GRPCRouteMatch) *Problem {
	for i, header := range match.Headers {
		regular := header.Type != nil && *header.Type == gatewayv1.HeaderMatchRegularExpression
		if p := checkHeaderMatch(at.Child("headers").Index(i), string(header.Name), header.Value, regular); p != nil {
			return p
		}
	}
	if match.Method != nil && match.Method.Type != nil && *match.Method.Type == gatewayv1.GRPCMethodMatchRegularExpression {
		return problem(at.Child("method", "type"), "RegularExpression is not supported")
	}
	return nil
}

// checkHTTPFilter looks at what a filter does; others than these three are let through.
func checkHTTPFilter(at *field.Path, filter gatewayv1.HTTPRouteFilter, own bool) *Problem {
	switch convert.HTTPFilterType(filter, own) {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		return checkHeaders(at.Child("requestHeaderModifier"), filter.RequestHeaderModifier)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		return checkHeaders(at.Child("responseHeaderModifier"), filter.ResponseHeaderModifier)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		return checkRedirect(at.Child("requestRedirect"), filter.RequestRedirect)
	}
	return nil
}

func checkHeaders(at *field.Path, modifier *gatewayv1.HTTPHeaderFilter) *Problem {
	for _, list := range []struct {
		name    string
		headers []gatewayv1.HTTPHeader
	}{{"add", modifier.Add}, {"set", modifier.Set}} {
		for i, header := range list.headers {
			at := at.Child(list.name).Index(i)
			if p := checkHeaderMatch(at, string(header.Name), header.Value, false); p != nil {
				return p
			}
		}
	}
	return each(at.Child("remove"), modifier.Remove, checkHeaderName)
}

func checkRedirect(at *field.Path, redirect *gatewayv1.HTTPRequestRedirectFilter) *Problem {
	if path := redirect.Path; path != nil {
		at := at.Child("path")
		switch {
		case path.ReplaceFullPath != nil:
			if p := checkAbsolute(at.Child("replaceFullPath"), *path.ReplaceFullPath); p != nil {
				return p
			}
		case path.ReplacePrefixMatch != nil:
			if p := checkAbsolute(at.Child("replacePrefixMatch"), *path.ReplacePrefixMatch); p != nil {
				return p
			}
		default:
			return problem(at, "replaceFullPath or replacePrefixMatch is needed")
		}
	}
	if code := redirect.StatusCode; code != nil && (*code < 100 || *code > 999) {
		return problem(at.Child("statusCode"), "%d is not within 100 to 999", *code)
	}
	return nil
}
