package routes

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
)

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

// HTTPMatches converts the matches of an HTTPRoute's rule, in order. No match
// means that everything matches.
func HTTPMatches(matches []gatewayv1.HTTPRouteMatch) ([]*http_route.HttpRouteMatch, error) {
	var out []*http_route.HttpRouteMatch
	for i, match := range matches {
		converted, err := httpMatch(match)
		if err != nil {
			return nil, fmt.Errorf("matches[%d].%w", i, err)
		}
		out = append(out, converted)
	}
	return out, nil
}

func httpMatch(match gatewayv1.HTTPRouteMatch) (*http_route.HttpRouteMatch, error) {
	out := &http_route.HttpRouteMatch{}
	var err error
	if match.Path != nil {
		if out.Path, err = pathMatch(match.Path); err != nil {
			return nil, fmt.Errorf("path: %w", err)
		}
	}
	for i, header := range match.Headers {
		converted, err := headerMatch(string(header.Name), (*string)(header.Type), header.Value)
		if err != nil {
			return nil, fmt.Errorf("headers[%d]: %w", i, err)
		}
		out.Headers = append(out.Headers, converted)
	}
	for i, param := range match.QueryParams {
		converted, err := queryParamMatch(param)
		if err != nil {
			return nil, fmt.Errorf("queryParams[%d]: %w", i, err)
		}
		out.QueryParams = append(out.QueryParams, converted)
	}
	if match.Method != nil {
		if out.Method, err = method(string(*match.Method)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func pathMatch(path *gatewayv1.HTTPPathMatch) (*http_route.PathMatch, error) {
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
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Prefix{Prefix: value}}, absolute(value)
	case gatewayv1.PathMatchExact:
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Exact{Exact: value}}, absolute(value)
	case gatewayv1.PathMatchRegularExpression:
		return &http_route.PathMatch{Kind: &http_route.PathMatch_Regex{Regex: value}}, Expression(value)
	}
	return nil, unknownType(string(kind))
}

// exactOrRegex tells which of the two types, Exact by default, a match has.
func exactOrRegex(kind *string) (isRegex bool, err error) {
	switch {
	case kind == nil, *kind == "Exact":
		return false, nil
	case *kind == "RegularExpression":
		return true, nil
	}
	return false, unknownType(*kind)
}

func headerMatch(name string, kind *string, value string) (*http_route.HeaderMatch, error) {
	lower, err := headerName(name)
	if err != nil {
		return nil, err
	}
	isRegex, err := exactOrRegex(kind)
	switch {
	case err != nil:
		return nil, err
	case isRegex:
		return &http_route.HeaderMatch{Name: lower, Value: &http_route.HeaderMatch_Regex{Regex: value}}, Expression(value)
	default:
		return &http_route.HeaderMatch{Name: lower, Value: &http_route.HeaderMatch_Exact{Exact: []byte(value)}}, headerValue(value)
	}
}

func queryParamMatch(param gatewayv1.HTTPQueryParamMatch) (*http_route.QueryParamMatch, error) {
	isRegex, err := exactOrRegex((*string)(param.Type))
	switch {
	case err != nil:
		return nil, err
	case isRegex:
		return &http_route.QueryParamMatch{Name: string(param.Name), Value: &http_route.QueryParamMatch_Regex{Regex: param.Value}}, Expression(param.Value)
	default:
		return &http_route.QueryParamMatch{Name: string(param.Name), Value: &http_route.QueryParamMatch_Exact{Exact: param.Value}}, nil
	}
}

func method(name string) (*http_types.HttpMethod, error) {
	number, ok := http_types.HttpMethod_Registered_value[name]
	if !ok {
		return nil, fmt.Errorf("method: unknown method %q", name)
	}
	return &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_Registered(number)}}, nil
}

// GRPCMatches converts the matches of a GRPCRoute's rule, in order.
func GRPCMatches(matches []gatewayv1.GRPCRouteMatch) ([]*grpc_route.GrpcRouteMatch, error) {
	var out []*grpc_route.GrpcRouteMatch
	for i, match := range matches {
		converted, err := grpcMatch(match)
		if err != nil {
			return nil, fmt.Errorf("matches[%d].%w", i, err)
		}
		out = append(out, converted)
	}
	return out, nil
}

// grpcMatch always sets rpc, since proxies refuse a whole policy that lacks it
// (policy-inbound 8.4); empty, it matches every method.
func grpcMatch(match gatewayv1.GRPCRouteMatch) (*grpc_route.GrpcRouteMatch, error) {
	out := &grpc_route.GrpcRouteMatch{Rpc: &grpc_route.GrpcRpcMatch{}}
	if m := match.Method; m != nil {
		if isRegex, err := exactOrRegex((*string)(m.Type)); err != nil || isRegex {
			return nil, fmt.Errorf("method: type %s is not supported", *m.Type)
		}
		if m.Service != nil {
			out.Rpc.Service = *m.Service
		}
		if m.Method != nil {
			out.Rpc.Method = *m.Method
		}
	}
	for i, header := range match.Headers {
		converted, err := headerMatch(string(header.Name), (*string)(header.Type), header.Value)
		if err != nil {
			return nil, fmt.Errorf("headers[%d]: %w", i, err)
		}
		out.Headers = append(out.Headers, converted)
	}
	return out, nil
}

func absolute(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q does not begin with /", path)
	}
	return nil
}

// headerName returns the name as proxies compare it: in lower case.
func headerName(name string) (string, error) {
	if !httpguts.ValidHeaderFieldName(name) {
		return "", fmt.Errorf("%q is no header name", name)
	}
	return strings.ToLower(name), nil
}

func headerValue(value string) error {
	for _, b := range []byte(value) {
		if b != '\t' && (b < ' ' || b > '~') {
			return fmt.Errorf("header value %q has characters that are not visible ASCII", value)
		}
	}
	return nil
}

func unknownType(kind string) error { return fmt.Errorf("unknown type %q", kind) }
