package routes

import (
	"errors"
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

// HTTPFilterType says what a filter does, "" if nothing. The type of a tagged
// filter, one of Linkerd's own HTTPRoute, decides, if it has the content for
// it; of others the first field that is set does (policy-inbound 8.5).
func HTTPFilterType(filter gatewayv1.HTTPRouteFilter, tagged bool) gatewayv1.HTTPRouteFilterType {
	for _, content := range []struct {
		set bool
		of  gatewayv1.HTTPRouteFilterType
	}{
		{filter.RequestHeaderModifier != nil, gatewayv1.HTTPRouteFilterRequestHeaderModifier},
		{filter.ResponseHeaderModifier != nil, gatewayv1.HTTPRouteFilterResponseHeaderModifier},
		{filter.RequestRedirect != nil, gatewayv1.HTTPRouteFilterRequestRedirect},
		{filter.RequestMirror != nil, gatewayv1.HTTPRouteFilterRequestMirror},
		{filter.URLRewrite != nil, gatewayv1.HTTPRouteFilterURLRewrite},
		{filter.ExtensionRef != nil, gatewayv1.HTTPRouteFilterExtensionRef},
	} {
		if content.set && (!tagged || filter.Type == content.of) {
			return content.of
		}
	}
	return ""
}

// RequestHeaderModifier converts a filter. Add and Set are always present,
// since proxies refuse a whole policy that lacks them.
func RequestHeaderModifier(filter *gatewayv1.HTTPHeaderFilter) (*http_route.RequestHeaderModifier, error) {
	out := &http_route.RequestHeaderModifier{}
	var err error
	out.Add, out.Set, out.Remove, err = headerFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("requestHeaderModifier: %w", err)
	}
	return out, nil
}

// ResponseHeaderModifier converts a filter, like RequestHeaderModifier.
func ResponseHeaderModifier(filter *gatewayv1.HTTPHeaderFilter) (*http_route.ResponseHeaderModifier, error) {
	out := &http_route.ResponseHeaderModifier{}
	var err error
	out.Add, out.Set, out.Remove, err = headerFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("responseHeaderModifier: %w", err)
	}
	return out, nil
}

func headerFilter(filter *gatewayv1.HTTPHeaderFilter) (add, set *http_types.Headers, remove []string, err error) {
	if add, err = headers(filter.Add); err != nil {
		return nil, nil, nil, fmt.Errorf("add: %w", err)
	}
	if set, err = headers(filter.Set); err != nil {
		return nil, nil, nil, fmt.Errorf("set: %w", err)
	}
	for _, name := range filter.Remove {
		lower, err := headerName(name)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("remove: %w", err)
		}
		remove = append(remove, lower)
	}
	return add, set, remove, nil
}

func headers(list []gatewayv1.HTTPHeader) (*http_types.Headers, error) {
	out := &http_types.Headers{}
	for _, header := range list {
		name, err := headerName(string(header.Name))
		if err != nil {
			return nil, err
		}
		if err := headerValue(header.Value); err != nil {
			return nil, err
		}
		out.Headers = append(out.Headers, &http_types.Headers_Header{Name: name, Value: []byte(header.Value)})
	}
	return out, nil
}

// defaultRedirectStatus is that of a redirect without statusCode, which the
// schema's default of 302 keeps from happening.
const defaultRedirectStatus = 200

// RequestRedirect converts a filter.
func RequestRedirect(filter *gatewayv1.HTTPRequestRedirectFilter) (*http_route.RequestRedirect, error) {
	out := &http_route.RequestRedirect{Status: defaultRedirectStatus}
	if filter.Scheme != nil {
		var scheme http_types.Scheme_Registered
		switch *filter.Scheme {
		case "http":
			scheme = http_types.Scheme_HTTP
		case "https":
			scheme = http_types.Scheme_HTTPS
		default:
			return nil, fmt.Errorf("requestRedirect.scheme: unknown scheme %q", *filter.Scheme)
		}
		out.Scheme = &http_types.Scheme{Type: &http_types.Scheme_Registered_{Registered: scheme}}
	}
	if filter.Hostname != nil {
		out.Host = string(*filter.Hostname)
	}
	if filter.Path != nil {
		var err error
		if out.Path, err = pathModifier(filter.Path); err != nil {
			return nil, fmt.Errorf("requestRedirect.path: %w", err)
		}
	}
	if filter.Port != nil && *filter.Port >= 1 && *filter.Port <= 65535 {
		out.Port = uint32(*filter.Port)
	}
	if filter.StatusCode != nil {
		if code := *filter.StatusCode; code < 100 || code > 999 {
			return nil, fmt.Errorf("requestRedirect.statusCode: %d is no status", code)
		}
		out.Status = uint32(*filter.StatusCode)
	}
	return out, nil
}

func pathModifier(path *gatewayv1.HTTPPathModifier) (*http_route.PathModifier, error) {
	switch {
	case path.ReplaceFullPath != nil:
		full := *path.ReplaceFullPath
		return &http_route.PathModifier{Replace: &http_route.PathModifier_Full{Full: full}}, absolute(full)
	case path.ReplacePrefixMatch != nil:
		prefix := *path.ReplacePrefixMatch
		return &http_route.PathModifier{Replace: &http_route.PathModifier_Prefix{Prefix: prefix}}, absolute(prefix)
	}
	return nil, errors.New("neither replaceFullPath nor replacePrefixMatch")
}
