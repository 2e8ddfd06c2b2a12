package quantity_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What Check lets pass is computed at once, what it refuses need not be.
func TestCheck(t *testing.T) {
	rulebook.Covers(t, "F7")
	for _, good := range []string{"", "0", "1", "100m", "1.5Gi", "1e3", "1E3", "-1e-9", "12e6", "1e999", "1e-999", "1e+0000000009", "0.000000001", strings.Repeat("9", 100)} {
		if err := quantity.Check(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
		start := time.Now()
		if q, err := resource.ParseQuantity(good); err == nil {
			q.Cmp(resource.MustParse("1"))
			_, _ = q.MarshalJSON()
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s took %v", good, took)
		}
	}
	for _, bad := range []string{"1e-1000000000", "1e1000000000", "1E1000", "+1.0e-1000", "1e+1000000000", strings.Repeat("9", 101), "1e4294967297"} {
		if err := quantity.Check(bad); err == nil {
			t.Errorf("%s is let pass", bad)
		}
		if !quantity.Suspect([]byte(`{"a":"` + bad + `"}`)) {
			t.Errorf("%s is no suspect", bad)
		}
	}
	for _, plain := range []string{`{"a":"b","n":123456789012,"t":"2026-12-01T00:00:00Z","hash":"abc12345","s":"a\"b\\c\nd\/e"}`, "cpu: 100m"} {
		if quantity.Suspect([]byte(plain)) {
			t.Errorf("%s is a suspect", plain)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	const bomb = "1e-1000000000"
	for _, test := range []struct {
		name, object string
		kind         any
		want         string
	}{
		{"limits", `{"spec":{"containers":[{},{"resources":{"limits":{"cpu":"1e-1000000000"}}}]}}`, corev1.Pod{}, "spec.containers[1].resources.limits[cpu]"},
		{"a number", `{"spec":{"containers":[{"resources":{"requests":{"cpu":1e-1000000000}}}]}}`, corev1.Pod{}, "spec.containers[0].resources.requests[cpu]"},
		{"escaped", `{"spec":{"overhead":{"cpu":"1\u0065-1000000000"}}}`, corev1.Pod{}, "spec.overhead[cpu]"},
		{"with spaces", `{"spec":{"overhead":{"cpu":" 1e-1000000000 "}}}`, corev1.Pod{}, "spec.overhead[cpu]"},
		{"other case", `{"Spec":{"Overhead":{"cpu":"1e-1000000000"}}}`, corev1.Pod{}, "Spec.Overhead[cpu]"},
		{"twice, the first", `{"spec":{"overhead":{"cpu":"1e-1000000000","cpu":"1"}}}`, corev1.Pod{}, "spec.overhead[cpu]"},
		{"a divisor", `[{"valueFrom":{"resourceFieldRef":{"divisor":"1e-1000000000"}}}]`, []corev1.EnvVar{}, "[0].valueFrom.resourceFieldRef.divisor"},
		{"in a template", `{"spec":{"template":{"spec":{"overhead":{"cpu":"1e-1000000000"}}}}}`, appsv1.Deployment{}, "spec.template.spec.overhead[cpu]"},
		{"in a revision", `{"data":{"spec":{"template":{"spec":{"overhead":{"cpu":"1e-1000000000"}}}}}}`, appsv1.ControllerRevision{}, "data.spec.template.spec.overhead[cpu]"},
		{
			"in an annotation", `{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"pods\":{\"targetAverageValue\":\"1e-1000000000\"}}]"}}}`,
			autoscalingv1.HorizontalPodAutoscaler{}, "metadata.annotations[autoscaling.alpha.kubernetes.io/metrics]",
		},
		{"the value of a variable", `{"spec":{"containers":[{"env":[{"name":"COMMIT","value":"12e45678"}]}]}}`, corev1.Pod{}, ""},
		{"a label", `{"metadata":{"labels":{"commit":"12e4567890123"}}}`, corev1.Pod{}, ""},
		{"data", `{"data":{"limits":"1e-1000000000"}}`, corev1.ConfigMap{}, ""},
		{"good", `{"spec":{"overhead":{"cpu":"1e-3"}},"metadata":{"uid":"e12345"}}`, corev1.Pod{}, ""},
		{"broken", `{"spec":{"overhead":{"cpu":"1e-10000`, corev1.Pod{}, ""},
		{"null", `{"spec":{"overhead":{"cpu":null},"x":"1e12345"}}`, corev1.Pod{}, ""},
		{"deep", strings.Repeat(`[`, 1<<20) + "1e12345", corev1.Pod{}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := quantity.CheckJSON([]byte(test.object), reflect.TypeOf(test.kind))
			if got := fieldOf(t, err); got != test.want {
				t.Errorf("error at %q, want %q: %v", got, test.want, err)
			}
		})
	}
	if err := quantity.CheckJSON([]byte(`{"cpu":"`+bomb+`"}`), nil); err != nil {
		t.Errorf("an object without a type: %v", err)
	}
}

func fieldOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var at *quantity.FieldError
	if !errors.As(err, &at) {
		t.Fatalf("error %v names no field", err)
	}
	return at.Field
}

func TestCheckPatch(t *testing.T) {
	for _, test := range []struct{ name, patch, want string }{
		{"the quantity itself", `[{"op":"test","path":"/metadata"},{"op":"replace","path":"/spec/containers/0/resources/limits/cpu","value":"1e-1000000000"}]`, "spec.containers[0].resources.limits[cpu]"},
		{"around it", `[{"op":"add","path":"/spec/containers/-","value":{"resources":{"limits":{"cpu":"1e-1000000000"}}}}]`, "spec.containers[-].resources.limits[cpu]"},
		{"an escaped name", `[{"op":"add","path":"/spec/overhead/example.com~1gpu","value":"1e-1000000000"}]`, "spec.overhead[example.com/gpu]"},
		{"the whole", `[{"op":"replace","path":"","value":{"spec":{"overhead":{"cpu":"1e-1000000000"}}}}]`, "spec.overhead[cpu]"},
		{"a label", `[{"op":"add","path":"/metadata/labels/commit","value":"1e-1000000000"}]`, ""},
		{"no patch", `{"path":"1e-1000000000"}`, ""},
		{"no value", `[{"op":"remove","path":"/1e12345"}]`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := quantity.CheckPatch([]byte(test.patch), reflect.TypeFor[corev1.Pod]())
			if got := fieldOf(t, err); got != test.want {
				t.Errorf("error at %q, want %q: %v", got, test.want, err)
			}
		})
	}
}

func TestCheckProtobuf(t *testing.T) {
	pod := func(value string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"commit": "12e4567890"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Env:       []corev1.EnvVar{{Name: "12e45678", Value: "12e45678"}},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(value)}},
			}}},
		}
	}
	encode := func(value string) []byte {
		data, err := pod(value).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := quantity.CheckProtobuf(encode("100m")); err != nil {
		t.Errorf("names and labels count: %v", err)
	}
	// A quantity cannot be made that way: its text is put in where one of the same length was.
	good := "1234567890123"
	if data := encode(good); !strings.Contains(string(data), good) {
		t.Fatal("the quantity is not spelt in the message as it is in the object")
	} else if err := quantity.CheckProtobuf([]byte(strings.ReplaceAll(string(data), good, "1e-1000000000"))); err == nil {
		t.Error("the limit is let pass")
	}
	hpa := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"autoscaling.alpha.kubernetes.io/metrics": `[{"resource":{"targetAverageValue":"1e-1000000000"}}]`,
	}}}
	data, err := hpa.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := quantity.CheckProtobuf(data); err == nil {
		t.Error("the annotation is let pass")
	}
}

// number is what resource.ParseQuantity takes for one.
var number = regexp.MustCompile(`^[+-]?[0-9.]+([eE][-+]?[0-9]+)?$`)

// FuzzSuspect holds that nothing is refused that Suspect does not see, so that
// most objects need not be walked.
func FuzzSuspect(f *testing.F) {
	for _, seed := range []string{"1e-1000000000", "100m", "12e4", "1E+99999", strings.Repeat("1", 101)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := json.Marshal(text)
		if err != nil {
			return
		}
		if number.MatchString(text) && quantity.Check(text) != nil && !quantity.Suspect(data) {
			t.Errorf("%q is refused and no suspect", text)
		}
	})
}

func BenchmarkCheckJSON(b *testing.B) {
	object := []byte(`{"kind":"Pod","metadata":{"name":"web","uid":"0e1234"},"spec":{"containers":[` +
		strings.Repeat(`{"name":"a","image":"b","resources":{"limits":{"cpu":"100m"}}},`, 100) + `{}]}}`)
	b.SetBytes(int64(len(object)))
	for b.Loop() {
		if err := quantity.CheckJSON(object, reflect.TypeFor[corev1.Pod]()); err != nil {
			b.Fatal(err)
		}
	}
}
