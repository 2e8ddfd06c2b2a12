package apiserver

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// No request makes the server compute a quantity for minutes.
func TestQuantitiesAreBounded(t *testing.T) {
	rulebook.Covers(t, "F7")
	const limit = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"resources":{"limits":{"cpu":"1e-1000000000"}}}]}}`
	pods := apirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "pods", Name: "web"}
	for _, test := range []struct {
		name, media, body string
		change            func(*apirequest.RequestInfo)
		refused           string // what the refusal says, or nothing
	}{
		{"JSON", "application/json", limit, nil, `Pod \"web\" is invalid: spec.containers[0].resources.limits[cpu]: Invalid value: \"1e-1000000000\"`},
		{"no media type", "", limit, nil, "limits[cpu]"},
		{"parameters", "application/json; charset=utf-8", limit, nil, "limits[cpu]"},
		{"YAML", "application/yaml", `{spec: {containers: [{resources: {limits: {cpu: "1\x65-1000000000"}}}]}}`, nil, "limits[cpu]"},
		{"apply", "application/apply-patch+yaml", limit, func(i *apirequest.RequestInfo) { i.Verb = "patch" }, "limits[cpu]"},
		{"merge patch without a kind", "application/merge-patch+json", `{"spec":{"overhead":{"cpu":1e-1000000000}}}`, func(i *apirequest.RequestInfo) { i.Verb = "patch" }, "overhead[cpu]"},
		{"strategic patch", "application/strategic-merge-patch+json", `{"spec":{"overhead":{"cpu":"1e1000000000"}}}`, func(i *apirequest.RequestInfo) { i.Verb = "patch" }, "overhead[cpu]"},
		{"JSON patch", "application/json-patch+json", `[{"op":"add","path":"/spec/overhead/cpu","value":"1e1000000000"}]`, func(i *apirequest.RequestInfo) { i.Verb = "patch" }, "overhead[cpu]"},
		{
			"protobuf", "application/vnd.kubernetes.protobuf", "\x12\x0f\x0a\x0d1e-1000000000", nil,
			`quantity \"1e-1000000000\" is too large`,
		},
		{"a status", "application/json", `{"status":{"allocatedResources":{"cpu":"1e1000000000"}}}`, func(i *apirequest.RequestInfo) {
			i.Verb, i.Resource, i.Subresource = "update", "persistentvolumeclaims", "status"
		}, "allocatedResources[cpu]"},
		{"another kind than the resource's", "application/json", limit, func(i *apirequest.RequestInfo) { i.Resource = "services" }, "limits[cpu]"},
		{"apps", "application/json", `{"spec":{"template":` + limit + `}}`, func(i *apirequest.RequestInfo) { i.APIGroup, i.Resource = "apps", "deployments" }, `Deployment.apps \"web\" is invalid`},

		{"a custom resource", "application/json", `{"apiVersion":"example.com/v1","kind":"Pod","spec":{"overhead":{"cpu":"1e1000000000"}}}`, func(i *apirequest.RequestInfo) {
			i.APIGroup, i.APIVersion = "example.com", "v1"
		}, ""},
		{"a ConfigMap", "application/json", `{"apiVersion":"v1","kind":"ConfigMap","data":{"cpu":"1e1000000000"}}`, func(i *apirequest.RequestInfo) { i.Resource = "configmaps" }, ""},
		{"good", "application/json", strings.Replace(limit, "1e-1000000000", "1e-3", 1), nil, ""},
		{"too long for the server", "application/json", limit + strings.Repeat(" ", 1<<20), nil, ""},
		{"broken", "application/json", limit[:70] + "\\u", nil, ""},
		{"a read", "application/json", limit, func(i *apirequest.RequestInfo) { i.Verb = "get" }, ""},
		{"exec", "application/json", limit, func(i *apirequest.RequestInfo) { i.Subresource = "exec" }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			guard := newQuantityGuard(scheme.Scheme, scheme.Codecs, 1<<20, func(_ *http.Request, i *apirequest.RequestInfo) bool { return i.Subresource == "exec" })
			var passed []byte
			handler := guard.before(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var err error
				if passed, err = io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
			}))
			info := pods
			if test.change != nil {
				test.change(&info)
			}
			request := httptest.NewRequestWithContext(apirequest.WithRequestInfo(t.Context(), &info), http.MethodPost, "/", strings.NewReader(test.body))
			request.Header.Set("Content-Type", test.media)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if test.refused == "" {
				if answer.Code != http.StatusOK || !bytes.Equal(passed, []byte(test.body)) {
					t.Errorf("status %d, %d bytes of %d passed: %s", answer.Code, len(passed), len(test.body), answer.Body)
				}
				return
			}
			if answer.Code/100 != 4 || !strings.Contains(answer.Body.String(), test.refused) || passed != nil {
				t.Errorf("status %d, want a refusal with %s: %s", answer.Code, test.refused, answer.Body)
			}
		})
	}
}
