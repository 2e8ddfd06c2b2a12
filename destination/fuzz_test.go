package destination

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	linkerdv1alpha2 "github.com/linkerd-lite/linkerd-lite/internal/apis/linkerd/v1alpha2"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// FuzzTranslateProfile feeds the specs of ServiceProfiles: what is translated
// encodes, says as much as the spec, and says nothing that proxies refuse.
func FuzzTranslateProfile(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"routes": [null]}`,
		`{"routes": [{"name": "r", "condition": {"method": "GET", "pathRegex": "/", "not": {"any": [{"pathRegex": "/a"}]}}, "timeout": "200ms", "isRetryable": true}]}`,
		`{"routes": [{"condition": {"all": []}, "responseClasses": [{"condition": {"status": {"min": 500, "max": 599}, "not": {"all": [null]}}}]}]}`,
		`{"routes": [{"condition": {"pathRegex": "/"}, "responseClasses": [{"condition": {"status": {"min": 201, "max": 200}}}]}]}`,
		`{"retryBudget": {"retryRatio": 0.5, "minRetriesPerSecond": 5, "ttl": "0s"}}`,
		`{"retryBudget": {}}`,
		`{"dstOverrides": [{"authority": "a.ns.svc.cluster.local", "weight": "500m"}, {"authority": "[::1]:1", "weight": "-1"}, {"weight": "1e30"}]}`,
		`{"opaquePorts": ["80"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		sp := &linkerdv1alpha2.ServiceProfile{}
		if json.Unmarshal([]byte(spec), &sp.Spec) != nil {
			return
		}
		profile, err := translateProfile(sp, webTarget(), false, func(error) {})
		if err != nil {
			return
		}
		if _, err := proto.Marshal(profile); err != nil {
			t.Errorf("does not encode: %v", err)
		}
		if len(profile.Routes) != len(sp.Spec.Routes) || len(profile.DstOverrides) != len(sp.Spec.DstOverrides) {
			t.Errorf("%d routes and %d overrides of %d and %d", len(profile.Routes), len(profile.DstOverrides), len(sp.Spec.Routes), len(sp.Spec.DstOverrides))
		}
		for _, route := range profile.Routes {
			if !completeRequest(route.Condition) {
				t.Errorf("incomplete condition %v", route.Condition)
			}
			for _, class := range route.ResponseClasses {
				if !completeResponse(class.Condition) {
					t.Errorf("incomplete response condition %v", class.Condition)
				}
			}
		}
	})
}

func completeRequest(m *pb.RequestMatch) bool {
	switch match := m.GetMatch().(type) {
	case *pb.RequestMatch_All:
		return allOf(match.All.Matches, completeRequest)
	case *pb.RequestMatch_Any:
		return allOf(match.Any.Matches, completeRequest)
	case *pb.RequestMatch_Not:
		return completeRequest(match.Not)
	case nil:
		return false
	}
	return true
}

func completeResponse(m *pb.ResponseMatch) bool {
	switch match := m.GetMatch().(type) {
	case *pb.ResponseMatch_All:
		return allOf(match.All.Matches, completeResponse)
	case *pb.ResponseMatch_Any:
		return allOf(match.Any.Matches, completeResponse)
	case *pb.ResponseMatch_Not:
		return completeResponse(match.Not)
	case *pb.ResponseMatch_Status:
		low, high := match.Status.Min, match.Status.Max
		return (low == 0 || high == 0 || low <= high) && low < 600 && high < 600
	case nil:
		return false
	}
	return true
}

func allOf[T any](items []T, holds func(T) bool) bool {
	for _, item := range items {
		if !holds(item) {
			return false
		}
	}
	return true
}
