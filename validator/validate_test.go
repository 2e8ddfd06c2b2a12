package validator

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/validator/validatortest"
)

const base = "web.n.svc.cluster.local"

func TestValidate(t *testing.T) {
	for _, row := range validatortest.Cases() {
		rulebook.Run(t, row.ID, func(t *testing.T) {
			got := problems.Refusal(Validate([]byte(row.Text()), Options{ClusterDomain: "cluster.local"}))
			if got == nil {
				if row.Denied() {
					t.Fatal("allowed")
				}
				return
			}
			if !row.Denied() {
				t.Fatalf("denied: %s", got)
			}
			if got.Field != row.Field || !strings.Contains(got.Message, row.Message) {
				t.Errorf("got %q %q, want field %q and a message with %q", got.Field, got.Message, row.Field, row.Message)
			}
		})
	}
}

// TestWarnings checks what is valid and cannot work (B40).
func TestWarnings(t *testing.T) {
	exists := func(namespace, name string) bool { return namespace == "n" && name == "web" }
	tests := []struct {
		id, name, spec string
		want           []string
	}{
		{"fine", base, `{routes: [{name: r, condition: {pathRegex: "/a/\\d+"}, timeout: 1s}], retryBudget: {ttl: 10s}}`, nil},
		{"V34", base, `{routes: [{name: r, condition: {pathRegex: '[('}}]}`, []string{"spec.routes[0].condition.pathRegex"}},
		{
			"V34 nested", base, `{routes: [{name: r, condition: {any: [{not: {pathRegex: '['}}, {all: [{pathRegex: '('}]}]}}]}`,
			[]string{"spec.routes[0].condition.any[0].not.pathRegex", "spec.routes[0].condition.any[1].all[0].pathRegex"},
		},
		{"V39", base, `{routes: [{name: r, condition: {method: GET}, timeout: -5s}]}`, []string{"spec.routes[0].timeout"}},
		{"V61", base, `{retryBudget: {ttl: -10s}}`, []string{"spec.retryBudget.ttl"}},
		{"V58", base, `{retryBudget: {ttl: 10ms}}`, []string{"spec.retryBudget.ttl"}},
		{"V06", "web", `{}`, []string{"metadata.name"}},
		{"V07", "example.com", `{}`, []string{"metadata.name"}},
		{"other domain", "web.n.svc.example.org", `{}`, []string{"metadata.name"}},
		{"no Service", "api.n.svc.cluster.local", `{}`, []string{"metadata.name"}},
	}
	for _, test := range tests {
		rulebook.Run(t, test.id, func(t *testing.T) {
			result := Validate([]byte("metadata: {name: "+test.name+"}\nspec: "+test.spec), Options{ClusterDomain: "cluster.local", ServiceExists: exists})
			var got []string
			for _, problem := range result {
				if problem.Severity != problems.Warning {
					t.Errorf("denied: %s", problem)
				}
				got = append(got, problem.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A check costs about as much as the profile is long, whatever its expressions stand for.
func TestExpressionsAreNotWrittenOut(t *testing.T) {
	rulebook.Covers(t, "F7")
	route := `{"name":"r","condition":{"pathRegex":"(?:(?:` + strings.Repeat("a", 1000) + `){30}){30}"}},`
	object := []byte(`{"metadata":{"name":"web.n.svc.cluster.local"},"spec":{"routes":[` + strings.TrimSuffix(strings.Repeat(route, 100), ",") + `]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result := Validate(object, Options{ClusterDomain: "cluster.local"})
	runtime.ReadMemStats(&after)
	if len(result) > 0 {
		t.Errorf("result %v", result)
	}
	if factor := int(after.TotalAlloc-before.TotalAlloc) / len(object); factor > 100 {
		t.Errorf("the check allocates %d times the size of the object", factor)
	}
}

func FuzzValidate(f *testing.F) {
	for _, row := range validatortest.Cases() {
		f.Add([]byte(row.Text()))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		found := Validate(object, Options{ClusterDomain: "cluster.local", ServiceExists: func(string, string) bool { return true }})
		var stored metav1.PartialObjectMetadata
		if problems.Refusal(found) == nil && (yaml.Unmarshal(object, &stored) != nil || stored.Name == "") {
			t.Error("a profile without name was allowed")
		}
		for _, problem := range found {
			if problem.Message == "" || problem.Severity == "" || problem.Severity == problems.Warning && problem.Object.Name == "" {
				t.Errorf("%+v", problem)
			}
		}
	})
}
