package admission

import (
	"encoding/json"
	stdruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook/webhooktest"
)

func serve(tb testing.TB) func(body []byte) (*admissionv1.AdmissionReview, error) {
	tb.Helper()
	return webhooktest.Serve(tb, webhook.Endpoint{Name: "policy", Path: "/policy", Review: Review(nil), Dialect: webhook.PolicyDialect})
}

func request(tb testing.TB, r row, spec string) []byte {
	tb.Helper()
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u-1", Namespace: "ns", Kind: metav1.GroupVersionKind{Group: r.group, Version: "v1", Kind: r.kind},
			Object: runtime.RawExtension{Raw: r.object(tb, spec)},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func TestReview(t *testing.T) {
	post := serve(t)
	for _, row := range allRows() {
		rulebook.Run(t, row.id+" "+row.kind, func(t *testing.T) {
			for _, spec := range row.specs {
				review, err := post(request(t, row, spec))
				if err != nil {
					t.Fatal(err)
				}
				response := review.Response
				if response.UID != "u-1" || review.Request != nil || review.APIVersion != "admission.k8s.io/v1" {
					t.Errorf("got %v", review)
				}
				if response.Allowed != (row.field == "") {
					t.Errorf("%s: allowed %v: %v", spec, response.Allowed, response.Result)
				}
				if !response.Allowed && (response.Result.Code != 0 || !strings.HasPrefix(response.Result.Message, row.field)) {
					t.Errorf("%s: got %v", spec, response.Result)
				}
			}
		})
	}
	rulebook.Run(t, "P69", func(t *testing.T) {
		review, err := post([]byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if review.Response.Allowed || review.Response.UID != "" || review.Response.Result.Reason != "InvalidRequest" {
			t.Errorf("got %v", review.Response)
		}
	})
	rulebook.Run(t, "P70", func(t *testing.T) {
		review, err := post(request(t, row{kind: "ConfigMap"}, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		if review.Response.Allowed || !strings.Contains(review.Response.Result.Message, ".v1.ConfigMap") {
			t.Errorf("got %v", review.Response)
		}
	})
}

// BenchmarkReview measures the time of reviews by HTTPS while 200 objects are applied at once.
func BenchmarkReview(b *testing.B) {
	const parallel = 200
	post := serve(b)
	var bodies [][]byte
	for _, row := range allRows() {
		for _, spec := range row.specs {
			bodies = append(bodies, request(b, row, spec))
		}
	}
	var (
		mu    sync.Mutex
		times []time.Duration
	)
	// The API server has its connection already; without it each of the 200 would make its own.
	if _, err := post(bodies[0]); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(max(1, parallel/stdruntime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		var own []time.Duration
		for i := 0; pb.Next(); i++ {
			start := time.Now()
			if _, err := post(bodies[i%len(bodies)]); err != nil {
				b.Error(err)
				return
			}
			own = append(own, time.Since(start))
		}
		mu.Lock()
		defer mu.Unlock()
		times = append(times, own...)
	})
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkCheck measures the check of one large route.
func BenchmarkCheck(b *testing.B) {
	rule := `{matches: [` + strings.Repeat(`{path: {type: RegularExpression, value: "/a/[0-9]+"}, headers: [{name: a, value: b}]},`, 8) + `]}`
	r := routes("http", "", "", "", nil)[0]
	data := r.object(b, "{"+serviceParent+", rules: ["+strings.Repeat(rule+",", 16)+"]}")
	b.ReportAllocs()
	for b.Loop() {
		if p := problems.Refusal(Check(schema.GroupKind{Group: r.group, Kind: r.kind}, "ns", data)); p != nil {
			b.Fatal(p)
		}
	}
}
