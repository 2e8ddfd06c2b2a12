package gateway

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

// Filter is a filter in the form of a message. One field is set. The details
// of errors are what Linkerd's controller says, since clients are told.
type Filter struct {
	RequestHeaders  *http_route.RequestHeaderModifier
	ResponseHeaders *http_route.ResponseHeaderModifier
	Redirect        *http_route.RequestRedirect
}

// HTTPFilter converts a filter; one of a type that Linkerd does not support is
// an error of field.ErrorTypeNotSupported. The type of a tagged filter, that of
// a rule of Linkerd's own HTTPRoute, says what it does; of all others the
// first field that is set does (policy-inbound 8.5).
func HTTPFilter(at *field.Path, filter gatewayv1.HTTPRouteFilter, tagged bool) (Filter, *field.Error) {
	switch kind := HTTPFilterField(filter, tagged); kind {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		return requestHeaders(at, filter.RequestHeaderModifier)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		return responseHeaders(at, filter.ResponseHeaderModifier)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		redirect, err := requestRedirect(at.Child("requestRedirect"), filter.RequestRedirect)
		return Filter{Redirect: redirect}, err
	case "":
		return Filter{}, unknownFilter(at, filter.Type)
	default:
		return Filter{}, unsupported(at, kind)
	}
}

// HTTPFilterField is the type of the field that says what a filter does, "" if none does.
func HTTPFilterField(filter gatewayv1.HTTPRouteFilter, tagged bool) gatewayv1.HTTPRouteFilterType {
	for _, field := range []struct {
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
		if field.set && (!tagged || filter.Type == field.of) {
			return field.of
		}
	}
	return ""
}

// GRPCFilter converts a filter as HTTPFilter does.
func GRPCFilter(at *field.Path, filter gatewayv1.GRPCRouteFilter) (Filter, *field.Error) {
	switch {
	case filter.RequestHeaderModifier != nil:
		return requestHeaders(at, filter.RequestHeaderModifier)
	case filter.ResponseHeaderModifier != nil:
		return responseHeaders(at, filter.ResponseHeaderModifier)
	case filter.RequestMirror != nil:
		return Filter{}, unsupported(at, gatewayv1.GRPCRouteFilterRequestMirror)
	case filter.ExtensionRef != nil:
		return Filter{}, unsupported(at, gatewayv1.GRPCRouteFilterExtensionRef)
	}
	return Filter{}, unknownFilter(at, filter.Type)
}

func unsupported[T ~string](at *field.Path, kind T) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotSupported, Field: at.String(), BadValue: kind, Detail: fmt.Sprintf("%s filter is not supported", kind)}
}

func unknownFilter[T ~string](at *field.Path, kind T) *field.Error {
	return &field.Error{Type: field.ErrorTypeNotSupported, Field: at.String(), BadValue: kind, Detail: "unknown filter"}
}

// requestHeaders always has Add and Set, since proxies refuse a whole policy
// that lacks them.
func requestHeaders(at *field.Path, filter *gatewayv1.HTTPHeaderFilter) (Filter, *field.Error) {
	out := &http_route.RequestHeaderModifier{}
	var err *field.Error
	out.Add, out.Set, out.Remove, err = headerFilter(at.Child("requestHeaderModifier"), filter)
	return Filter{RequestHeaders: out}, err
}

func responseHeaders(at *field.Path, filter *gatewayv1.HTTPHeaderFilter) (Filter, *field.Error) {
	out := &http_route.ResponseHeaderModifier{}
	var err *field.Error
	out.Add, out.Set, out.Remove, err = headerFilter(at.Child("responseHeaderModifier"), filter)
	return Filter{ResponseHeaders: out}, err
}

func headerFilter(at *field.Path, filter *gatewayv1.HTTPHeaderFilter) (add, set *http_types.Headers, remove []string, err *field.Error) {
	add, set = &http_types.Headers{}, &http_types.Headers{}
	if add.Headers, err = convertEach(at.Child("add"), filter.Add, header); err != nil {
		return nil, nil, nil, err
	}
	if set.Headers, err = convertEach(at.Child("set"), filter.Set, header); err != nil {
		return nil, nil, nil, err
	}
	remove, err = convertEach(at.Child("remove"), filter.Remove, headerName)
	return add, set, remove, err
}

func header(at *field.Path, header gatewayv1.HTTPHeader) (*http_types.Headers_Header, *field.Error) {
	name, err := headerName(at.Child("name"), string(header.Name))
	if err != nil {
		return nil, err
	}
	return &http_types.Headers_Header{Name: name, Value: []byte(header.Value)}, checkHeaderValue(at.Child("value"), header.Value)
}

// defaultRedirectStatus is that of a redirect without statusCode, which the
// schema's default of 302 keeps from happening.
const defaultRedirectStatus = 200

func requestRedirect(at *field.Path, filter *gatewayv1.HTTPRequestRedirectFilter) (*http_route.RequestRedirect, *field.Error) {
	out := &http_route.RequestRedirect{Status: defaultRedirectStatus, Host: text(filter.Hostname), Port: uint32(portOf(filter.Port))}
	if filter.Scheme != nil {
		registered, ok := map[string]http_types.Scheme_Registered{"http": http_types.Scheme_HTTP, "https": http_types.Scheme_HTTPS}[*filter.Scheme]
		if !ok {
			return nil, invalid(at.Child("scheme"), *filter.Scheme, "neither http nor https")
		}
		out.Scheme = &http_types.Scheme{Type: &http_types.Scheme_Registered_{Registered: registered}}
	}
	if filter.Path != nil {
		var err *field.Error
		if out.Path, err = pathModifier(at.Child("path"), filter.Path); err != nil {
			return nil, err
		}
	}
	if filter.StatusCode != nil {
		code := *filter.StatusCode
		switch {
		case code < 0 || code > 1<<16-1:
			return nil, field.Invalid(at.Child("statusCode"), code, "out of range integral type conversion attempted")
		case code < 100 || code > 999:
			return nil, field.Invalid(at.Child("statusCode"), code, "invalid status code")
		}
		out.Status = uint32(code)
	}
	return out, nil
}

func pathModifier(at *field.Path, path *gatewayv1.HTTPPathModifier) (*http_route.PathModifier, *field.Error) {
	switch {
	case path.ReplaceFullPath != nil:
		full := *path.ReplaceFullPath
		return &http_route.PathModifier{Replace: &http_route.PathModifier_Full{Full: full}}, checkRedirectPath(at.Child("replaceFullPath"), full)
	case path.ReplacePrefixMatch != nil:
		prefix := *path.ReplacePrefixMatch
		return &http_route.PathModifier{Replace: &http_route.PathModifier_Prefix{Prefix: prefix}}, checkRedirectPath(at.Child("replacePrefixMatch"), prefix)
	}
	return nil, field.Required(at, "RequestRedirect filter must contain either replace_full_path or replace_prefix_match")
}

func checkRedirectPath(at *field.Path, path string) *field.Error {
	if strings.HasPrefix(path, "/") {
		return nil
	}
	return invalid(at, path, fmt.Sprintf("RequestRedirect filters may only contain absolute paths (starting with '/'); %q is not an absolute path", path))
}
