package outbound

import (
	"errors"
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy/routes"
)

// filterError is what is wrong with one of several filters.
type filterError struct {
	index int
	err   error
}

func (e *filterError) Error() string { return fmt.Sprintf("filters[%d]: %v", e.index, e.err) }
func (e *filterError) Unwrap() error { return e.err }

// detail is the error without the filter's place, for messages that clients see.
func detail(err error) string {
	if at := (*filterError)(nil); errors.As(err, &at) {
		return at.err.Error()
	}
	return err.Error()
}

func httpFilters(group string, filters []gatewayv1.HTTPRouteFilter) ([]*pb.HttpRoute_Filter, error) {
	var out []*pb.HttpRoute_Filter
	for i, filter := range filters {
		converted, err := httpFilter(filter, group == apis.Group)
		if err != nil {
			return nil, &filterError{i, err}
		}
		out = append(out, converted)
	}
	return out, nil
}

// httpFilter converts a filter.
func httpFilter(filter gatewayv1.HTTPRouteFilter, tagged bool) (*pb.HttpRoute_Filter, error) {
	switch kind := routes.HTTPFilterType(filter, tagged); kind {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		modifier, err := routes.RequestHeaderModifier(filter.RequestHeaderModifier)
		return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: modifier}}, err
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		modifier, err := routes.ResponseHeaderModifier(filter.ResponseHeaderModifier)
		return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_ResponseHeaderModifier{ResponseHeaderModifier: modifier}}, err
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		redirect, err := routes.RequestRedirect(filter.RequestRedirect)
		return &pb.HttpRoute_Filter{Kind: &pb.HttpRoute_Filter_Redirect{Redirect: redirect}}, err
	case "":
		return nil, fmt.Errorf("%s filter has no content", filter.Type)
	default:
		return nil, unsupported(kind)
	}
}

// grpcFilters converts filters. One that modifies responses is left out, since
// the message has no place for it (policy-outbound 5.1).
func grpcFilters(filters []gatewayv1.GRPCRouteFilter) ([]*pb.GrpcRoute_Filter, error) {
	var out []*pb.GrpcRoute_Filter
	for i, filter := range filters {
		converted, err := grpcFilter(filter)
		if err != nil {
			return nil, &filterError{i, err}
		}
		if converted != nil {
			out = append(out, converted)
		}
	}
	return out, nil
}

func grpcFilter(filter gatewayv1.GRPCRouteFilter) (*pb.GrpcRoute_Filter, error) {
	switch {
	case filter.RequestHeaderModifier != nil:
		modifier, err := routes.RequestHeaderModifier(filter.RequestHeaderModifier)
		return &pb.GrpcRoute_Filter{Kind: &pb.GrpcRoute_Filter_RequestHeaderModifier{RequestHeaderModifier: modifier}}, err
	case filter.ResponseHeaderModifier != nil:
		_, err := routes.ResponseHeaderModifier(filter.ResponseHeaderModifier)
		return nil, err
	case filter.RequestMirror != nil:
		return nil, unsupported(gatewayv1.GRPCRouteFilterRequestMirror)
	case filter.ExtensionRef != nil:
		return nil, unsupported(gatewayv1.GRPCRouteFilterExtensionRef)
	}
	return nil, fmt.Errorf("%s filter has no content", filter.Type)
}

func unsupported[T ~string](kind T) error { return fmt.Errorf("%s filter is not supported", kind) }
