package injector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenCase is a *.in.yaml: what exists, and the object that is created. A row
// of the configuration may differ from the default.
type goldenCase struct {
	Config  injector.Config   `json:"config"`
	Exists  []json.RawMessage `json:"exists"`
	Creates json.RawMessage   `json:"creates"`
}

// goldenResult is a *.out.yaml: the object as it is stored.
type goldenResult struct {
	Warnings []string        `json:"warnings,omitempty"`
	Object   json.RawMessage `json:"object"`
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, in := range files {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			content, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			c := goldenCase{Config: injector.Config{Settings: linkerd.DefaultSettings()}}
			if err := yaml.UnmarshalStrict(content, &c); err != nil {
				t.Fatal(err)
			}
			i := injector.New(c.Config, injector.NewLookup(fake.NewClientset(decode(t, c.Exists)...)))
			object, warnings := create(t, i, c.Creates)
			got, err := yaml.Marshal(goldenResult{warnings, object})
			if err != nil {
				t.Fatal(err)
			}
			out := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			again, _ := create(t, i, object)
			if diff := cmp.Diff(string(object), string(again)); diff != "" {
				t.Errorf("a second time changed it (-once +twice):\n%s", diff)
			}
		})
	}
}

func decode(t *testing.T, raw []json.RawMessage) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	for _, r := range raw {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(r, &kind); err != nil {
			t.Fatal(err)
		}
		types := map[string]runtime.Object{"Namespace": &corev1.Namespace{}, "ReplicaSet": &appsv1.ReplicaSet{}, "Job": &batchv1.Job{}}
		object, ok := types[kind.Kind]
		if !ok {
			t.Fatalf("kind %s is not known to this test", kind.Kind)
		}
		if err := json.Unmarshal(r, object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// create returns what the API server would store.
func create(t *testing.T, i *injector.Injector, object []byte) ([]byte, []string) {
	t.Helper()
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &meta); err != nil {
		t.Fatal(err)
	}
	response := i.Review(t.Context(), request(meta.Kind, meta.Namespace, object))
	if !response.Allowed || response.UID != "u-1" {
		t.Fatalf("response = %+v", response)
	}
	if len(response.Patch) == 0 {
		return canonical(t, object), response.Warnings
	}
	p, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := p.Apply(object)
	if err != nil {
		t.Fatalf("patch %s: %v", response.Patch, err)
	}
	return canonical(t, patched), response.Warnings
}

func canonical(t *testing.T, object []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, object); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func request(kind, namespace string, object []byte) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "u-1", Operation: admissionv1.Create, Namespace: namespace,
		Kind:   metav1.GroupVersionKind{Version: "v1", Kind: kind},
		Object: runtime.RawExtension{Raw: object},
	}
}

func podJSON(t *testing.T, change func(*corev1.Pod)) []byte {
	t.Helper()
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	change(&pod)
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWhoIsInjected(t *testing.T) {
	inject := func(value string) map[string]string { return map[string]string{"linkerd.io/inject": value} }
	const name = "linkerd.io/control-plane-ns"
	for _, test := range []struct {
		name      string
		namespace metav1.ObjectMeta
		pod       func(*corev1.Pod)
		byDefault bool
		want      string // the value of linkerd.io/inject, or nothing
		warning   string
	}{
		{name: "no annotation, default off"},
		{name: "no annotation, default on", byDefault: true, want: "enabled"},
		{name: "namespace enabled", namespace: metav1.ObjectMeta{Annotations: inject("enabled")}, want: "enabled"},
		{name: "namespace ingress", namespace: metav1.ObjectMeta{Annotations: inject("ingress")}, want: "ingress"},
		{name: "namespace disabled beats default", namespace: metav1.ObjectMeta{Annotations: inject("disabled")}, byDefault: true},
		{name: "namespace misspelt", namespace: metav1.ObjectMeta{Annotations: inject("yes")}, byDefault: true},
		{name: "pod enabled", pod: func(p *corev1.Pod) { p.Annotations = inject("enabled") }, want: "enabled"},
		{name: "pod beats namespace", namespace: metav1.ObjectMeta{Annotations: inject("enabled")}, pod: func(p *corev1.Pod) { p.Annotations = inject("disabled") }},
		{name: "pod beats disabled namespace", namespace: metav1.ObjectMeta{Annotations: inject("disabled")}, pod: func(p *corev1.Pod) { p.Annotations = inject("ingress") }, want: "ingress"},
		{name: "host network", pod: func(p *corev1.Pod) { p.Spec.HostNetwork = true }, byDefault: true, warning: "linkerd-proxy not injected: the pod uses the host network"},
		{
			name: "has a proxy", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Name = "linkerd-proxy" }, byDefault: true,
			warning: "linkerd-proxy not injected: the pod has a container named linkerd-proxy",
		},
		{
			name: "has a native proxy", pod: func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "linkerd-proxy"}} }, byDefault: true,
			warning: "linkerd-proxy not injected: the pod has a container named linkerd-proxy",
		},
		{
			name: "has the init container", pod: func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "linkerd-init"}} }, byDefault: true,
			warning: "linkerd-proxy not injected: the pod has a container named linkerd-init",
		},
		{name: "no service account token", pod: func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(bool) }, byDefault: true, want: "enabled"},
		{name: "kube-system", pod: func(p *corev1.Pod) { p.Namespace = "kube-system" }, byDefault: true},
		{name: "cert-manager", pod: func(p *corev1.Pod) { p.Namespace = "cert-manager" }, byDefault: true},
		{name: "webhooks off", namespace: metav1.ObjectMeta{Labels: map[string]string{"config.linkerd.io/admission-webhooks": "disabled"}}, byDefault: true},
		{name: "control plane", pod: func(p *corev1.Pod) { p.Labels = map[string]string{"linkerd.io/control-plane-component": "destination"} }, byDefault: true},
		{name: "CNI plugin", pod: func(p *corev1.Pod) { p.Labels = map[string]string{"linkerd.io/cni-resource": "true"} }, byDefault: true},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			if test.pod == nil {
				test.pod = func(*corev1.Pod) {}
			}
			test.namespace.Name = "ns"
			i := injector.New(injector.Config{Default: test.byDefault, Settings: linkerd.DefaultSettings()}, injector.NewLookup(fake.NewClientset(&corev1.Namespace{ObjectMeta: test.namespace})))
			raw, warnings := create(t, i, podJSON(t, test.pod))
			var pod corev1.Pod
			if err := json.Unmarshal(raw, &pod); err != nil {
				t.Fatal(err)
			}
			got := ""
			if pod.Labels[name] != "" {
				got = pod.Annotations["linkerd.io/inject"]
			}
			if got != test.want {
				t.Errorf("injected as %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(test.warning, strings.Join(warnings, "\n")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsThatAreLeftAlone(t *testing.T) {
	i := injector.New(injector.Config{Default: true, Settings: linkerd.DefaultSettings()}, injector.NewLookup(fake.NewClientset()))
	pod := podJSON(t, func(*corev1.Pod) {})
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"update":     func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"delete":     func(r *admissionv1.AdmissionRequest) { r.Operation, r.Object.Raw = admissionv1.Delete, nil },
		"other kind": func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "ConfigMap" },
		"group":      func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "example.com" },
		"binding":    func(r *admissionv1.AdmissionRequest) { r.SubResource = "binding" },
	} {
		t.Run(name, func(t *testing.T) {
			r := request("Pod", "ns", pod)
			change(r)
			if response := i.Review(t.Context(), r); !response.Allowed || response.Patch != nil || response.UID != "u-1" {
				t.Errorf("response = %+v", response)
			}
		})
	}
}

func TestProbeIsSeen(t *testing.T) {
	i := injector.New(injector.Config{Settings: linkerd.DefaultSettings()}, brokenLookup{})
	object, _ := create(t, i, []byte(`{"kind":"Service","metadata":{"annotations":{"lite.linkerd.io/injector-probe":""}}}`))
	want := `{"kind":"Service","metadata":{"annotations":{"lite.linkerd.io/injector-probe":"seen"}}}`
	if diff := cmp.Diff(want, string(object)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// brokenLookup fails as an API server that goes down does.
type brokenLookup struct{ owners bool }

func (b brokenLookup) Namespace(context.Context, string) (metav1.ObjectMeta, error) {
	if b.owners {
		return metav1.ObjectMeta{}, nil
	}
	return metav1.ObjectMeta{}, errors.New("get namespace ns: no route to host")
}

func (b brokenLookup) Owners(context.Context, string, metav1.OwnerReference) ([]metav1.OwnerReference, error) {
	return nil, errors.New("get ReplicaSet ns/web: no route to host")
}

func TestFailures(t *testing.T) {
	owned := podJSON(t, func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}} })
	for _, test := range []struct {
		name   string
		lookup injector.Lookup
		kind   string
		object []byte
		want   string
	}{
		{"namespace", brokenLookup{}, "Pod", owned, "proxy injection: get namespace ns: no route to host"},
		{"namespace of a Service", brokenLookup{}, "Service", []byte(`{}`), "proxy injection: get namespace ns: no route to host"},
		{"owner", brokenLookup{owners: true}, "Pod", owned, "proxy injection: get ReplicaSet ns/web: no route to host"},
		{"B38 broken Pod", brokenLookup{}, "Pod", []byte(`{"spec":7}`), "proxy injection: read Pod: json: cannot unmarshal number"},
		{"B38 broken Service", brokenLookup{}, "Service", []byte(`{`), "proxy injection: read Service: unexpected end"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			i := injector.New(injector.Config{Default: true, Settings: linkerd.DefaultSettings()}, test.lookup)
			response := i.Review(t.Context(), request(test.kind, "ns", test.object))
			if response.Allowed || response.UID != "u-1" || !strings.HasPrefix(response.Result.Message, test.want) {
				t.Errorf("response = %+v, %+v", response, response.Result)
			}
		})
	}
}

// FuzzReview holds that whatever pod the API server hands over, the patch can
// be applied, and a pod with a proxy gets no second one.
func FuzzReview(f *testing.F) {
	f.Add(`{"metadata":{"annotations":{"linkerd.io/inject":"enabled","config.linkerd.io/proxy-additional-env":"[{\"name\":\"A\"}]"}}}`)
	f.Add(`{"metadata":{"labels":{}},"spec":{"containers":[],"initContainers":[null]}}`)
	f.Add(fmt.Sprintf(`{"spec":{"containers":[{"ports":[{"containerPort":%d}]}]}}`, 1<<31-1))
	i := injector.New(injector.Config{Default: true, Settings: dualStack(true)}, injector.NewLookup(fake.NewClientset()))
	f.Fuzz(func(t *testing.T, in string) {
		i.Review(t.Context(), request("Pod", "ns", []byte(in)))
		var pod corev1.Pod
		if json.Unmarshal([]byte(in), &pod) != nil {
			return
		}
		pod.Kind, pod.Namespace = "Pod", "ns"
		raw, err := json.Marshal(pod)
		if err != nil {
			return
		}
		once, _ := create(t, i, raw)
		twice, _ := create(t, i, once)
		if diff := cmp.Diff(string(once), string(twice)); diff != "" {
			t.Errorf("a second time changed it:\n%s", diff)
		}
	})
}

func BenchmarkReview(b *testing.B) {
	object := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"ns","labels":{"app":"web"}},` +
		`"spec":{"serviceAccountName":"web","containers":[{"name":"app","image":"app","ports":[{"containerPort":8080}]}]}}`)
	i := injector.New(injector.Config{Default: true, Settings: linkerd.DefaultSettings()}, injector.NewLookup(fake.NewClientset()))
	b.ReportAllocs()
	for b.Loop() {
		i.Review(b.Context(), request("Pod", "ns", object))
	}
}

func dualStack(ipv6 bool) linkerd.Settings {
	settings := linkerd.DefaultSettings()
	settings.EnableIPv6 = ipv6
	return settings
}
