package validator

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook/webhooktest"
	"github.com/linkerd-lite/linkerd-lite/validator/validatortest"
)

// TestReview sends every row that the API server could send to the HTTPS server.
func TestReview(t *testing.T) {
	rulebook.Covers(t, "A03, B38, B39")
	post := serve(t)
	for _, row := range validatortest.Cases() {
		object, err := yaml.YAMLToJSONStrict([]byte(row.Text()))
		if err != nil || strings.HasPrefix(row.ID, "V23") {
			continue // not JSON, or a type that differs in JSON
		}
		rulebook.Run(t, row.ID, func(t *testing.T) {
			response := post(t, object)
			if response.Response.UID != "u-1" {
				t.Errorf("uid %q", response.Response.UID)
			}
			if response.Response.Allowed == row.Denied() {
				t.Fatalf("allowed %v: %v", response.Response.Allowed, response.Response.Result)
			}
			if !row.Denied() {
				return
			}
			result := response.Response.Result
			if result.Code != http.StatusBadRequest || !strings.Contains(result.Message, row.Field) || !strings.Contains(result.Message, row.Message) {
				t.Errorf("got %d %q", result.Code, result.Message)
			}
			if row.Field != "" && !strings.HasPrefix(result.Message, `ServiceProfile "`) {
				t.Errorf("no name in %q", result.Message)
			}
		})
	}
	t.Run("warnings", func(t *testing.T) {
		response := post(t, []byte(`{"metadata":{"name":"web"},"spec":{"routes":[{"name":"r","condition":{"pathRegex":"[("}}]}}`))
		if !response.Response.Allowed || len(response.Response.Warnings) != 2 {
			t.Errorf("got %v", response.Response)
		}
	})
	t.Run("many warnings", func(t *testing.T) {
		route := `{"name":"r","condition":{"pathRegex":"` + strings.Repeat("ä", 300) + `[("}},`
		response := post(t, []byte(`{"metadata":{"name":"web"},"spec":{"routes":[`+strings.TrimSuffix(strings.Repeat(route, 20), ",")+`]}}`))
		if got := len(response.Response.Warnings); got != maxWarnings+1 {
			t.Errorf("%d warnings", got)
		}
		for _, warning := range response.Response.Warnings {
			if len(warning) > maxWarning {
				t.Errorf("%d bytes: %s", len(warning), warning)
			}
		}
	})
}

// serve starts the HTTPS server, and returns a function that sends it an object.
func serve(t *testing.T) func(*testing.T, []byte) *admissionv1.AdmissionReview {
	t.Helper()
	post := webhooktest.Serve(t, webhook.Endpoint{Name: "sp-validator", Path: "/serviceprofiles", Review: Review(Options{ClusterDomain: "cluster.local"})})
	return func(t *testing.T, object []byte) *admissionv1.AdmissionReview {
		t.Helper()
		body, err := json.Marshal(&admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request:  &admissionv1.AdmissionRequest{UID: "u-1", Object: runtime.RawExtension{Raw: object}},
		})
		if err != nil {
			t.Fatal(err)
		}
		review, err := post(body)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if review.APIVersion != "admission.k8s.io/v1" || review.Request == nil {
			t.Errorf("review %v", review)
		}
		return review
	}
}
