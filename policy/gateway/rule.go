package gateway

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/policy/settings"
)

// Rule is a rule of a route. It has matches of its route's protocol, which for
// TLS and TCP has none. Immutable.
type Rule struct {
	HTTPMatches []*http_route.HttpRouteMatch
	GRPCMatches []*grpc_route.GrpcRouteMatch
	Filters     []Filter
	Backends    []Backend
	// Timeouts are zero where the parent's apply.
	Timeouts settings.Timeouts
}

// source is what the kinds of routes have in common.
type source struct {
	group, kind string
	protocol    Protocol
	spec        gatewayv1.CommonRouteSpec
	status      gatewayv1.RouteStatus
	hostnames   []gatewayv1.Hostname
	// backends are those of each rule.
	backends [][]Backend
	// rules converts matches and filters.
	rules func() ([]Rule, *field.Error)
	// settings adds the timeouts and retries of outbound policy, if the kind has
	// some.
	settings func(annotations map[string]string, v *Version) error
}

func rulesPath() *field.Path { return field.NewPath("spec", "rules") }

// httpSource reads an HTTPRoute; own says that it is one of Linkerd's.
func httpSource(group string, own bool, spec gatewayv1.HTTPRouteSpec, status gatewayv1.HTTPRouteStatus) source {
	s := source{
		group: group, kind: "HTTPRoute", protocol: HTTP,
		spec: spec.CommonRouteSpec, status: status.RouteStatus, hostnames: spec.Hostnames,
		rules: func() ([]Rule, *field.Error) {
			return convertEach(rulesPath(), spec.Rules, func(at *field.Path, rule gatewayv1.HTTPRouteRule) (out Rule, err *field.Error) {
				if out.HTTPMatches, err = convertEach(at.Child("matches"), rule.Matches, HTTPMatch); err != nil {
					return out, err
				}
				out.Filters, err = convertEach(at.Child("filters"), rule.Filters, func(at *field.Path, filter gatewayv1.HTTPRouteFilter) (Filter, *field.Error) {
					return HTTPFilter(at, filter, own)
				})
				return out, err
			})
		},
		settings: func(annotations map[string]string, v *Version) (err error) {
			annotated, err := settings.ParseTimeouts(annotations)
			if err != nil {
				return err
			}
			if v.HTTPRetry, err = settings.ParseHTTPRetry(annotations); err != nil {
				return err
			}
			for i, rule := range spec.Rules {
				if v.Rules[i].Timeouts, err = ruleTimeouts(own, rule.Timeouts, annotated); err != nil {
					return fmt.Errorf("%s: %w", rulesPath().Index(i).Child("timeouts"), err)
				}
			}
			return nil
		},
	}
	for _, rule := range spec.Rules {
		s.backends = append(s.backends, readBackends(rule.BackendRefs, func(ref gatewayv1.HTTPBackendRef) Backend {
			return readBackend(ref.BackendRef, ref.Filters, untaggedHTTPFilter)
		}))
	}
	return s
}

// untaggedHTTPFilter converts a filter of a backend. In both kinds of
// HTTPRoutes these are the Gateway API's.
func untaggedHTTPFilter(at *field.Path, filter gatewayv1.HTTPRouteFilter) (Filter, *field.Error) {
	return HTTPFilter(at, filter, false)
}

// ruleTimeouts adds a rule's own request timeout to what annotations say of all
// rules (policy-outbound 6.2). The two groups write durations differently.
func ruleTimeouts(own bool, source *gatewayv1.HTTPRouteTimeouts, annotated settings.Timeouts) (settings.Timeouts, error) {
	if source == nil {
		return annotated, nil
	}
	parse := settings.ParseDuration
	if own {
		parse = settings.ParseGoDuration
		if source.BackendRequest != nil {
			if _, err := parse(string(*source.BackendRequest)); err != nil {
				return annotated, fmt.Errorf("backendRequest: %w", err)
			}
		}
	}
	if source.Request == nil {
		return annotated, nil
	}
	request, err := parse(string(*source.Request))
	switch {
	case err != nil && own:
		return annotated, fmt.Errorf("request: %w", err)
	case err == nil && annotated.Request == nil:
		annotated.Request = (&request).Positive()
	}
	return annotated, nil
}

func grpcSource(group string, spec gatewayv1.GRPCRouteSpec, status gatewayv1.GRPCRouteStatus) source {
	s := source{
		group: group, kind: "GRPCRoute", protocol: GRPC,
		spec: spec.CommonRouteSpec, status: status.RouteStatus, hostnames: spec.Hostnames,
		rules: func() ([]Rule, *field.Error) {
			return convertEach(rulesPath(), spec.Rules, func(at *field.Path, rule gatewayv1.GRPCRouteRule) (out Rule, err *field.Error) {
				if out.GRPCMatches, err = convertEach(at.Child("matches"), rule.Matches, GRPCMatch); err != nil {
					return out, err
				}
				out.Filters, err = convertEach(at.Child("filters"), rule.Filters, GRPCFilter)
				return out, err
			})
		},
		settings: func(annotations map[string]string, v *Version) (err error) {
			annotated, err := settings.ParseTimeouts(annotations)
			if err != nil {
				return err
			}
			if v.GRPCRetry, err = settings.ParseGRPCRetry(annotations); err != nil {
				return err
			}
			for i := range v.Rules {
				v.Rules[i].Timeouts = annotated
			}
			return nil
		},
	}
	for _, rule := range spec.Rules {
		s.backends = append(s.backends, readBackends(rule.BackendRefs, func(ref gatewayv1.GRPCBackendRef) Backend {
			return readBackend(ref.BackendRef, ref.Filters, GRPCFilter)
		}))
	}
	return s
}

func tlsSource(group string, spec gatewayv1alpha2.TLSRouteSpec, status gatewayv1alpha2.TLSRouteStatus) source {
	s := source{
		group: group, kind: "TLSRoute", protocol: TLS,
		spec: spec.CommonRouteSpec, status: status.RouteStatus, hostnames: spec.Hostnames,
		rules: singleRule(len(spec.Rules)),
	}
	for _, rule := range spec.Rules {
		s.backends = append(s.backends, readBackends(rule.BackendRefs, readPlainBackend))
	}
	return s
}

func tcpSource(group string, spec gatewayv1alpha2.TCPRouteSpec, status gatewayv1alpha2.TCPRouteStatus) source {
	s := source{
		group: group, kind: "TCPRoute", protocol: TCP,
		spec: spec.CommonRouteSpec, status: status.RouteStatus,
		rules: singleRule(len(spec.Rules)),
	}
	for _, rule := range spec.Rules {
		s.backends = append(s.backends, readBackends(rule.BackendRefs, readPlainBackend))
	}
	return s
}

// singleRule is the rule of a route of connections, which has backends and
// nothing else (policy-outbound 4.2).
func singleRule(count int) func() ([]Rule, *field.Error) {
	return func() ([]Rule, *field.Error) {
		if err := CheckSingleRule(count); err != nil {
			return nil, err
		}
		return make([]Rule, 1), nil
	}
}

// CheckSingleRule wants one rule of a TLSRoute or TCPRoute.
func CheckSingleRule(count int) *field.Error {
	if count != 1 {
		return field.Invalid(rulesPath(), count, "there must be a single rule")
	}
	return nil
}
