package gateway

import (
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

// convertEach converts the items of a list, in order, until one cannot be.
func convertEach[From, To any](at *field.Path, items []From, convert func(*field.Path, From) (To, *field.Error)) ([]To, *field.Error) {
	var out []To
	for i, item := range items {
		converted, err := convert(at.Index(i), item)
		if err != nil {
			return nil, err
		}
		out = append(out, converted)
	}
	return out, nil
}

// Hosts converts the hostnames of a route, in order.
func Hosts(hostnames []gatewayv1.Hostname) []*http_route.HostMatch {
	var hosts []*http_route.HostMatch
	for _, hostname := range hostnames {
		suffix, wild := strings.CutPrefix(string(hostname), "*.")
		if !wild {
			hosts = append(hosts, &http_route.HostMatch{Match: &http_route.HostMatch_Exact{Exact: string(hostname)}})
			continue
		}
		labels := strings.Split(suffix, ".")
		slices.Reverse(labels)
		hosts = append(hosts, &http_route.HostMatch{Match: &http_route.HostMatch_Suffix_{Suffix: &http_route.HostMatch_Suffix{ReverseLabels: labels}}})
	}
	return hosts
}

// HTTPMatch converts a match of an HTTPRoute's rule (policy-inbound 8.4).
func HTTPMatch(at *field.Path, match gatewayv1.HTTPRouteMatch) (*http_route.HttpRouteMatch, *field.Error) {
	out := &http_route.HttpRouteMatch{}
	var err *field.Error
	if match.Path != nil {
		if out.Path, err = pathMatch(at.Child("path"), match.Path); err != nil {
			return nil, err
		}
	}
	if out.Headers, err = convertEach(at.Child("headers"), match.Headers, httpHeaderMatch); err != nil {
		return nil, err
	}
	if out.QueryParams, err = convertEach(at.Child("queryParams"), match.QueryParams, queryParamMatch); err != nil {
		return nil, err
	}
	if match.Method != nil {
		out.Method, err = method(at.Child("method"), string(*match.Method))
	}
	return out, err
}

func pathMatch(at *field.Path, path *gatewayv1.HTTPPathMatch) (*http_route.PathMatch, *field.Error) {
	value := "/"
	if path.Value != nil {
		value = *path.Value
	}
	kind := gatewayv1.PathMatchPathPrefix
	if path.Type != nil {
		kind = *path.Type
	}
	switch kind {
	case gatewayv1.PathMatchPathPrefix:
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Prefix{Prefix: value}}, checkAbsolute(at.Child("value"), value)
	case gatewayv1.PathMatchExact:
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Exact{Exact: value}}, checkAbsolute(at.Child("value"), value)
	case gatewayv1.PathMatchRegularExpression:
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Regex{Regex: value}}, checkExpression(at.Child("value"), value)
	}
	return nil, field.NotSupported(at.Child("type"), kind, []gatewayv1.PathMatchType{
		gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchRegularExpression,
	})
}

func checkAbsolute(at *field.Path, path string) *field.Error {
	if !strings.HasPrefix(path, "/") {
		return invalid(at, path, "does not begin with a slash")
	}
	return nil
}

// isRegex tells which of the two types, Exact by default, a match has.
func isRegex[T ~string](at *field.Path, kind *T) (bool, *field.Error) {
	switch {
	case kind == nil, *kind == "Exact":
		return false, nil
	case *kind == "RegularExpression":
		return true, nil
	}
	return false, field.NotSupported(at, *kind, []T{"Exact", "RegularExpression"})
}

func httpHeaderMatch(at *field.Path, match gatewayv1.HTTPHeaderMatch) (*http_route.HeaderMatch, *field.Error) {
	regex, err := isRegex(at.Child("type"), match.Type)
	if err != nil {
		return nil, err
	}
	return headerMatch(at, string(match.Name), match.Value, regex)
}

func grpcHeaderMatch(at *field.Path, match gatewayv1.GRPCHeaderMatch) (*http_route.HeaderMatch, *field.Error) {
	regex, err := isRegex(at.Child("type"), match.Type)
	if err != nil {
		return nil, err
	}
	return headerMatch(at, string(match.Name), match.Value, regex)
}

func headerMatch(at *field.Path, name, value string, regex bool) (*http_route.HeaderMatch, *field.Error) {
	lower, err := headerName(at.Child("name"), name)
	switch {
	case err != nil:
		return nil, err
	case regex:
		return &http_route.HeaderMatch{Name: lower, Value: &http_route.HeaderMatch_Regex{Regex: value}}, checkExpression(at.Child("value"), value)
	}
	return &http_route.HeaderMatch{Name: lower, Value: &http_route.HeaderMatch_Exact{Exact: []byte(value)}}, checkHeaderValue(at.Child("value"), value)
}

func queryParamMatch(at *field.Path, param gatewayv1.HTTPQueryParamMatch) (*http_route.QueryParamMatch, *field.Error) {
	regex, err := isRegex(at.Child("type"), param.Type)
	switch {
	case err != nil:
		return nil, err
	case regex:
		return &http_route.QueryParamMatch{Name: string(param.Name), Value: &http_route.QueryParamMatch_Regex{Regex: param.Value}},
			checkExpression(at.Child("value"), param.Value)
	}
	return &http_route.QueryParamMatch{Name: string(param.Name), Value: &http_route.QueryParamMatch_Exact{Exact: param.Value}}, nil
}

func method(at *field.Path, name string) (*http_types.HttpMethod, *field.Error) {
	number, ok := http_types.HttpMethod_Registered_value[name]
	if !ok {
		return nil, invalid(at, name, "not a method of HTTP")
	}
	return &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_Registered(number)}}, nil
}

// GRPCMatch converts a match of a GRPCRoute's rule. It always has an rpc, as
// proxies refuse a whole policy that lacks it (policy-inbound 8.4); an empty
// one matches every method.
func GRPCMatch(at *field.Path, match gatewayv1.GRPCRouteMatch) (*grpc_route.GrpcRouteMatch, *field.Error) {
	out := &grpc_route.GrpcRouteMatch{Rpc: &grpc_route.GrpcRpcMatch{}}
	if m := match.Method; m != nil {
		at := at.Child("method", "type")
		switch regex, err := isRegex(at, m.Type); {
		case err != nil:
			return nil, err
		case regex:
			return nil, field.Invalid(at, *m.Type, "expressions are not supported for methods")
		}
		out.Rpc.Service, out.Rpc.Method = text(m.Service), text(m.Method)
	}
	var err *field.Error
	out.Headers, err = convertEach(at.Child("headers"), match.Headers, grpcHeaderMatch)
	return out, err
}

// headerName returns the name as proxies compare it: in lower case.
func headerName(at *field.Path, name string) (string, *field.Error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return "", invalid(at, name, "invalid HTTP header name")
	}
	return strings.ToLower(name), nil
}

// checkHeaderValue refuses control characters other than tab.
func checkHeaderValue(at *field.Path, value string) *field.Error {
	if !httpguts.ValidHeaderFieldValue(value) {
		return invalid(at, value, "failed to parse header value")
	}
	return nil
}

// invalid is an error about a text of any length.
func invalid(at *field.Path, value, detail string) *field.Error {
	const most = 200
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "..."
	}
	return field.Invalid(at, value, detail)
}
