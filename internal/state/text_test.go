package state

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// notUTF8 is text to Kubernetes' protobuf, and none to ours.
const notUTF8 = "a\xff\xfez"

func testPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("\xff")}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: make([]corev1.EnvVar, 50), LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/live"}},
		}}}},
	}
}

// A built-in kind can hold what is no UTF-8, as Kubernetes' protobuf does not
// look; it is read as JSON has it, is the object's problem, and harms nothing else.
func TestTextOfBuiltInKinds(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Pods.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	k := &sink{state: s, info: &Pods.KindInfo}
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, tc := range []struct {
		name  string
		spoil func(*corev1.Pod)
		field string
	}{
		{"well", func(*corev1.Pod) {}, ""},
		{"probe", func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe.HTTPGet.Path = notUTF8 }, "spec.containers[0].livenessProbe.httpGet.path"},
		{"annotation", func(p *corev1.Pod) { p.Annotations["a"] = notUTF8 }, "metadata.annotations[a]"},
		{"key of an annotation", func(p *corev1.Pod) { p.Annotations[notUTF8] = "b" }, "metadata.annotations[a\ufffd\ufffdz]"},
		{"name", func(p *corev1.Pod) { p.Name = notUTF8 }, "metadata.name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod()
			tc.spoil(pod)
			var wire strings.Builder
			if err := codec.Encode(pod, &wire); err != nil {
				t.Fatal(err)
			}
			decoded, _, err := codec.Decode([]byte(wire.String()), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for step, store := range map[string]func() error{
				"event": func() error { return k.Update(decoded) },
				"list":  func() error { return k.Replace([]any{decoded}, "1") },
			} {
				if err := store(); err != nil {
					t.Fatal(err)
				}
				list := s.Problems().List()
				if len(list) > 1 || (len(list) == 0) != (tc.field == "") || len(list) == 1 && list[0].Field != tc.field {
					t.Errorf("%s: problems %v, want one of %q", step, list, tc.field)
				}
				if list := pods(s); len(list) != 1 {
					t.Fatalf("%s: %d pods", step, len(list))
				} else if at, found := notText(reflect.ValueOf(list[0])); found {
					t.Errorf("%s: %s is no UTF-8", step, at)
				}
			}
			if err := k.Delete(decoded); err != nil {
				t.Fatal(err)
			}
			if left, list := pods(s), s.Problems().List(); len(left)+len(list) > 0 {
				t.Errorf("after the end: pods %v, problems %v", left, list)
			}
		})
	}
}

// pods are all there are.
func pods(s *State) (list []*corev1.Pod) {
	for pod := range All(s.Snapshot().Reader(), Pods) {
		list = append(list, pod)
	}
	return list
}

// A custom resource comes as JSON, whose decoder leaves nothing but text.
func TestTextOfCustomResources(t *testing.T) {
	for _, text := range []string{notUTF8, `\ud800`, "\xc3\x28"} {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(`{"apiVersion":"a/v1","kind":"K","metadata":{"name":"` + text + `","labels":{"` + text + `":"x"}}}`)); err != nil {
			t.Fatal(err)
		}
		if strings.ToValidUTF8(obj.GetName(), "") != obj.GetName() {
			t.Errorf("%q is read as %q", text, obj.GetName())
		}
		for key := range obj.GetLabels() {
			if strings.ToValidUTF8(key, "") != key {
				t.Errorf("key %q is read as %q", text, key)
			}
		}
	}
}

func BenchmarkNotText(b *testing.B) {
	v := reflect.ValueOf(testPod())
	b.ReportAllocs()
	for b.Loop() {
		notText(v)
	}
}
