package admission

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

func checkPolicyHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	timeouts := make([]timeouts, len(route.Rules))
	for i, parent := range route.ParentRefs {
		if parent.Name == "" {
			return unreadable(spec().Child("parentRefs").Index(i).Child("name"), "missing")
		}
	}
	for i, rule := range route.Rules {
		at := spec().Child("rules").Index(i)
		for j, filter := range rule.Filters {
			var p *Problem
			if rule.Filters[j], p = tagged(at.Child("filters").Index(j), filter); p != nil {
				return p
			}
		}
		for j, backend := range rule.BackendRefs {
			for k, filter := range backend.Filters {
				if _, p := tagged(at.Child("backendRefs").Index(j).Child("filters").Index(k), filter); p != nil {
					return p
				}
			}
		}
		var p *Problem
		if timeouts[i], p = parseTimeouts(at.Child("timeouts"), rule.Timeouts); p != nil {
			return p
		}
	}
	return first(
		func() *Problem { return checkHTTPShape(&route) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.HTTPAnnotations) },
		func() *Problem { return checkHTTPRules(&route) },
		func() *Problem {
			for i, timeouts := range timeouts {
				if p := timeouts.check(spec().Child("rules").Index(i).Child("timeouts")); p != nil {
					return p
				}
			}
			return nil
		},
	)
}

func checkHTTPRoute(o *object) *Problem {
	var route gatewayv1.HTTPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	return first(
		func() *Problem { return checkHTTPShape(&route) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.HTTPAnnotations) },
		func() *Problem { return checkHTTPRules(&route) },
		func() *Problem {
			for i, rule := range route.Rules {
				for j, backend := range rule.BackendRefs {
					if p := checkBackend(spec().Child("rules").Index(i).Child("backendRefs").Index(j), backend.BackendObjectReference); p != nil {
						return p
					}
				}
			}
			return nil
		},
	)
}

func checkHTTPRules(route *gatewayv1.HTTPRouteSpec) *Problem {
	for i, rule := range route.Rules {
		at := spec().Child("rules").Index(i)
		for j, match := range rule.Matches {
			if p := checkHTTPMatch(at.Child("matches").Index(j), match); p != nil {
				return p
			}
		}
		for j, filter := range rule.Filters {
			if p := checkHTTPFilter(at.Child("filters").Index(j), filter); p != nil {
				return p
			}
		}
	}
	return nil
}

func checkGRPCRoute(o *object) *Problem {
	var route gatewayv1.GRPCRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	return first(
		func() *Problem { return checkGRPCShape(&route) },
		func() *Problem { return checkParents(o, route.ParentRefs, o.options.GRPCAnnotations) },
		func() *Problem {
			for i, rule := range route.Rules {
				at := spec().Child("rules").Index(i)
				for j, match := range rule.Matches {
					if p := checkGRPCMatch(at.Child("matches").Index(j), match); p != nil {
						return p
					}
				}
				for j, filter := range rule.Filters {
					if p := checkHTTPFilter(at.Child("filters").Index(j), gatewayv1.HTTPRouteFilter{
						RequestHeaderModifier: filter.RequestHeaderModifier, ResponseHeaderModifier: filter.ResponseHeaderModifier,
					}); p != nil {
						return p
					}
				}
			}
			return nil
		},
		func() *Problem {
			for i, rule := range route.Rules {
				for j, backend := range rule.BackendRefs {
					if p := checkBackend(spec().Child("rules").Index(i).Child("backendRefs").Index(j), backend.BackendObjectReference); p != nil {
						return p
					}
				}
			}
			return nil
		},
	)
}

func checkTLSRoute(o *object) *Problem {
	var route gatewayv1alpha2.TLSRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return checkSingleRule(len(route.Rules))
}

func checkTCPRoute(o *object) *Problem {
	var route gatewayv1alpha2.TCPRouteSpec
	if p := o.decode(&route); p != nil {
		return p
	}
	if p := checkParents(o, route.ParentRefs, nil); p != nil {
		return p
	}
	return checkSingleRule(len(route.Rules))
}

func checkSingleRule(rules int) *Problem {
	if rules != 1 {
		return problem(spec().Child("rules"), "there must be a single rule, not %d", rules)
	}
	return nil
}

// checkParents wants a port for each EgressNetwork. For parents of outbound traffic the annotations must parse.
func checkParents(o *object, parents []gatewayv1.ParentReference, annotations func(map[string]string) error) *Problem {
	outbound := false
	for i, parent := range parents {
		switch {
		case parentTargets(parent, policy.Group, "EgressNetwork"):
			outbound = true
			if parent.Port == nil {
				return problem(spec().Child("parentRefs").Index(i).Child("port"), "an EgressNetwork as parent needs a port")
			}
		case parentTargets(parent, "", "Service"):
			outbound = true
		}
	}
	if outbound && annotations != nil {
		if err := annotations(o.annotations); err != nil {
			return problem(field.NewPath("metadata", "annotations"), "%v", err)
		}
	}
	return nil
}

func parentTargets(parent gatewayv1.ParentReference, group, kind string) bool {
	if parent.Kind == nil {
		return false
	}
	ref := policy.LocalTargetRef{Kind: string(*parent.Kind)}
	if parent.Group != nil {
		ref.Group = string(*parent.Group)
	}
	return ref.Targets(group, kind)
}

// checkBackend wants a port for each Service. Kinds are compared as they are spelt here.
func checkBackend(at *field.Path, backend gatewayv1.BackendObjectReference) *Problem {
	if backend.Group != nil && !slices.Contains([]gatewayv1.Group{"", "core"}, *backend.Group) {
		return nil
	}
	if backend.Kind != nil && *backend.Kind != "Service" {
		return nil
	}
	if backend.Port == nil || *backend.Port == 0 {
		return problem(at.Child("port"), "invalid backendRef: a Service needs a port")
	}
	return nil
}

// timeouts are those of a rule of a policy HTTPRoute; nil if not given.
type timeouts struct{ request, backendRequest *time.Duration }

func parseTimeouts(at *field.Path, given *gatewayv1.HTTPRouteTimeouts) (timeouts, *Problem) {
	var out timeouts
	if given == nil {
		return out, nil
	}
	parse := func(name string, text *gatewayv1.Duration) (*time.Duration, *Problem) {
		if text == nil {
			return nil, nil
		}
		if *text == "" {
			return new(time.Duration), nil
		}
		duration, err := time.ParseDuration(string(*text))
		if err != nil {
			return nil, unreadable(at.Child(name), "%v", err)
		}
		return &duration, nil
	}
	var p *Problem
	if out.request, p = parse("request", given.Request); p != nil {
		return out, p
	}
	out.backendRequest, p = parse("backendRequest", given.BackendRequest)
	return out, p
}

// check does not treat zero as unlimited: a positive backendRequest exceeds it.
func (t timeouts) check(at *field.Path) *Problem {
	switch {
	case t.backendRequest != nil && *t.backendRequest < 0:
		return problem(at.Child("backendRequest"), "%v is negative", *t.backendRequest)
	case t.request != nil && *t.request < 0:
		return problem(at.Child("request"), "%v is negative", *t.request)
	case t.backendRequest != nil && t.request != nil && *t.backendRequest > *t.request:
		return problem(at.Child("backendRequest"), "%v exceeds request, which is %v", *t.backendRequest, *t.request)
	}
	return nil
}
