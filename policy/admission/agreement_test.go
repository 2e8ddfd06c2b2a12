package admission

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/gateway"
	convert "github.com/linkerd-lite/linkerd-lite/policy/routes"
)

// TestAgreement checks that admission lets through exactly the matches and filters that can be converted for proxies.
func TestAgreement(t *testing.T) {
	agree := func(t *testing.T, problem *Problem, err error) {
		t.Helper()
		if (problem == nil) != (err == nil) {
			t.Errorf("admission says %v, conversion %v", problem, err)
		}
	}
	at := field.NewPath("spec")
	for _, row := range routeRows() {
		if row.kind != "HTTPRoute" {
			continue
		}
		for _, spec := range row.specs {
			var route gatewayv1.HTTPRouteSpec
			data, err := yaml.YAMLToJSON([]byte(spec))
			if err != nil || json.Unmarshal(data, &route) != nil || gateway.CheckHTTP(route.Rules, false) != nil {
				continue
			}
			t.Run(row.id+" "+spec, func(t *testing.T) {
				for _, rule := range route.Rules {
					for _, match := range rule.Matches {
						_, err := convert.HTTPMatches([]gatewayv1.HTTPRouteMatch{match})
						agree(t, checkHTTPMatch(at, match), err)
					}
					for _, filter := range rule.Filters {
						switch {
						case filter.RequestHeaderModifier != nil:
							_, err := convert.RequestHeaderModifier(filter.RequestHeaderModifier)
							agree(t, checkHTTPFilter(at, filter, false), err)
						case filter.ResponseHeaderModifier != nil:
							_, err := convert.ResponseHeaderModifier(filter.ResponseHeaderModifier)
							agree(t, checkHTTPFilter(at, filter, false), err)
						case filter.RequestRedirect != nil:
							_, err := convert.RequestRedirect(filter.RequestRedirect)
							agree(t, checkHTTPFilter(at, filter, false), err)
						}
					}
				}
			})
		}
	}
}
