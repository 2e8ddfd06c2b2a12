package destination

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
)

// defaultRetryBudget is that of every profile without one of its own (D section 2.3).
func defaultRetryBudget() *destination.RetryBudget {
	return &destination.RetryBudget{RetryRatio: 0.2, MinRetriesPerSecond: 10, Ttl: durationpb.New(10 * time.Second)}
}

// profileTarget is the service and port that a profile is about.
type profileTarget struct {
	service, namespace string
	// fqn is the service's full name, without a port.
	fqn  string
	port uint32
}

// translateProfile returns what a proxy is told about target, whose
// ServiceProfile may be nil (D section 2.3). An error means that the
// ServiceProfile as a whole is unusable, so that nothing must be sent (D112);
// warn gets what is wrong with parts that are left out.
func translateProfile(sp *linkerdv1alpha2.ServiceProfile, target profileTarget, opaque bool, warn func(error)) (*destination.DestinationProfile, error) {
	profile := &destination.DestinationProfile{
		FullyQualifiedName: target.fqn,
		OpaqueProtocol:     opaque,
		RetryBudget:        defaultRetryBudget(),
		ParentRef: &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{
			Group: "core", Kind: "Service", Name: target.service, Namespace: target.namespace, Port: target.port,
		}}},
		ProfileRef: &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{Group: linkerdv1alpha2.SchemeGroupVersion.Group}}},
	}
	if sp == nil {
		return profile, nil
	}
	ref := profile.ProfileRef.GetResource()
	ref.Kind, ref.Name, ref.Namespace = "ServiceProfile", sp.Name, sp.Namespace

	var err error
	if profile.RetryBudget, err = translateRetryBudget(sp.Spec.RetryBudget); err != nil {
		return nil, err
	}
	for i, route := range sp.Spec.Routes {
		if route == nil {
			return nil, fmt.Errorf("spec.routes[%d] is null", i)
		}
		translated, err := translateRoute(route, warn)
		if err != nil {
			return nil, fmt.Errorf("spec.routes[%d] (%s): %w", i, route.Name, err)
		}
		profile.Routes = append(profile.Routes, translated)
	}
	for i, dst := range sp.Spec.DstOverrides {
		if dst == nil {
			return nil, fmt.Errorf("spec.dstOverrides[%d] is null", i)
		}
		profile.DstOverrides = append(profile.DstOverrides, &destination.WeightedDst{
			Authority: withPort(dst.Authority, target.port),
			// Weights are sent in ten-thousandths (D117).
			Weight: uint32(dst.Weight.MilliValue() * 10),
		})
	}
	return profile, nil
}

// withPort adds port to an authority that has none.
func withPort(authority string, port uint32) string {
	if _, _, err := net.SplitHostPort(authority); err == nil {
		return authority
	}
	return net.JoinHostPort(authority, strconv.FormatUint(uint64(port), 10))
}

func translateRetryBudget(budget *linkerdv1alpha2.RetryBudget) (*destination.RetryBudget, error) {
	translated := defaultRetryBudget()
	if budget == nil {
		return translated, nil
	}
	translated.RetryRatio = budget.RetryRatio
	translated.MinRetriesPerSecond = budget.MinRetriesPerSecond
	// The definition demands a ttl; one that is there but empty does not parse.
	ttl, err := time.ParseDuration(budget.TTL)
	if err != nil {
		return nil, fmt.Errorf("spec.retryBudget.ttl: %w", err)
	}
	translated.Ttl = nil
	if ttl != 0 {
		translated.Ttl = durationpb.New(ttl)
	}
	return translated, nil
}

func translateRoute(route *linkerdv1alpha2.RouteSpec, warn func(error)) (*destination.Route, error) {
	condition, err := translateRequestMatch(route.Condition)
	if err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	translated := &destination.Route{
		Condition:     condition,
		MetricsLabels: map[string]string{"route": route.Name},
		IsRetryable:   route.IsRetryable,
	}
	for i, class := range route.ResponseClasses {
		if class == nil {
			return nil, fmt.Errorf("responseClasses[%d] is null", i)
		}
		condition, err := translateResponseMatch(class.Condition)
		if err != nil {
			return nil, fmt.Errorf("responseClasses[%d].condition: %w", i, err)
		}
		translated.ResponseClasses = append(translated.ResponseClasses, &destination.ResponseClass{Condition: condition, IsFailure: class.IsFailure})
	}
	if route.Timeout != "" {
		timeout, err := time.ParseDuration(route.Timeout)
		switch {
		case err != nil:
			// The route is kept without a timeout (D113).
			warn(fmt.Errorf("timeout of route %q is left out: %w", route.Name, err))
		case timeout != 0:
			translated.Timeout = durationpb.New(timeout)
		}
	}
	return translated, nil
}

var errNoCondition = errors.New("a match needs at least one condition")

// translateRequestMatch turns the set fields of a match into one condition:
// alone as it is, several joined by "all" in the order all, any, method, not, path.
func translateRequestMatch(match *linkerdv1alpha2.RequestMatch) (*destination.RequestMatch, error) {
	if match == nil {
		return nil, errNoCondition
	}
	var matches []*destination.RequestMatch
	if match.All != nil {
		seq, err := translateEach(match.All, translateRequestMatch, "all")
		if err != nil {
			return nil, err
		}
		matches = append(matches, allRequests(seq))
	}
	if match.Any != nil {
		seq, err := translateEach(match.Any, translateRequestMatch, "any")
		if err != nil {
			return nil, err
		}
		matches = append(matches, &destination.RequestMatch{Match: &destination.RequestMatch_Any{Any: &destination.RequestMatch_Seq{Matches: seq}}})
	}
	if match.Method != "" {
		matches = append(matches, &destination.RequestMatch{Match: &destination.RequestMatch_Method{Method: translateMethod(match.Method)}})
	}
	if match.Not != nil {
		not, err := translateRequestMatch(match.Not)
		if err != nil {
			return nil, fmt.Errorf("not: %w", err)
		}
		matches = append(matches, &destination.RequestMatch{Match: &destination.RequestMatch_Not{Not: not}})
	}
	if match.PathRegex != "" {
		matches = append(matches, &destination.RequestMatch{Match: &destination.RequestMatch_Path{Path: &destination.PathMatch{Regex: match.PathRegex}}})
	}
	switch len(matches) {
	case 0:
		return nil, errNoCondition
	case 1:
		return matches[0], nil
	}
	return allRequests(matches), nil
}

func allRequests(matches []*destination.RequestMatch) *destination.RequestMatch {
	return &destination.RequestMatch{Match: &destination.RequestMatch_All{All: &destination.RequestMatch_Seq{Matches: matches}}}
}

func translateMethod(method string) *http_types.HttpMethod {
	method = strings.ToUpper(method)
	if number, ok := http_types.HttpMethod_Registered_value[method]; ok {
		return &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_Registered(number)}}
	}
	return &http_types.HttpMethod{Type: &http_types.HttpMethod_Unregistered{Unregistered: method}}
}

// translateResponseMatch is translateRequestMatch for responses, in the order
// all, any, status, not.
func translateResponseMatch(match *linkerdv1alpha2.ResponseMatch) (*destination.ResponseMatch, error) {
	if match == nil {
		return nil, errNoCondition
	}
	var matches []*destination.ResponseMatch
	if match.All != nil {
		seq, err := translateEach(match.All, translateResponseMatch, "all")
		if err != nil {
			return nil, err
		}
		matches = append(matches, allResponses(seq))
	}
	if match.Any != nil {
		seq, err := translateEach(match.Any, translateResponseMatch, "any")
		if err != nil {
			return nil, err
		}
		matches = append(matches, &destination.ResponseMatch{Match: &destination.ResponseMatch_Any{Any: &destination.ResponseMatch_Seq{Matches: seq}}})
	}
	if match.Status != nil {
		if err := checkStatusRange(match.Status); err != nil {
			return nil, err
		}
		matches = append(matches, &destination.ResponseMatch{Match: &destination.ResponseMatch_Status{
			Status: &destination.HttpStatusRange{Min: match.Status.Min, Max: match.Status.Max},
		}})
	}
	if match.Not != nil {
		not, err := translateResponseMatch(match.Not)
		if err != nil {
			return nil, fmt.Errorf("not: %w", err)
		}
		matches = append(matches, &destination.ResponseMatch{Match: &destination.ResponseMatch_Not{Not: not}})
	}
	switch len(matches) {
	case 0:
		return nil, errNoCondition
	case 1:
		return matches[0], nil
	}
	return allResponses(matches), nil
}

func allResponses(matches []*destination.ResponseMatch) *destination.ResponseMatch {
	return &destination.ResponseMatch{Match: &destination.ResponseMatch_All{All: &destination.ResponseMatch_Seq{Matches: matches}}}
}

// checkStatusRange allows a side to be open: 0 is no bound (D116).
func checkStatusRange(r *linkerdv1alpha2.Range) error {
	for _, bound := range []uint32{r.Min, r.Max} {
		if bound != 0 && (bound < 100 || bound > 599) {
			return fmt.Errorf("status %d is not within 100 and 599", bound)
		}
	}
	if r.Min != 0 && r.Max != 0 && r.Max < r.Min {
		return fmt.Errorf("status range ends at %d before it starts at %d", r.Max, r.Min)
	}
	return nil
}

func translateEach[In, Out any](in []*In, translate func(*In) (*Out, error), field string) ([]*Out, error) {
	out := make([]*Out, len(in))
	for i, item := range in {
		translated, err := translate(item)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		out[i] = translated
	}
	return out, nil
}
