package containers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// text is a value as fmt prints it.
func text(v any) string { return fmt.Sprint(v) }

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-5f7-abc", Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web", Command: []string{"true"}, Args: []string{"x"}}}},
	}
	change(p)
	return p
}

func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte("shop/web: {web: ./web --listen}\nshop/nightly: {web: ./nightly}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runFile, err := ReadRunFile(file)
	if err != nil {
		t.Fatal(err)
	}
	owned := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: ptr.To(true)}}
			if kind == "ReplicaSet" {
				p.Labels = map[string]string{"pod-template-hash": "5f7"}
			}
		}
	}
	for _, test := range []struct {
		name     string
		programs Programs
		change   func(*corev1.Pod)
		want     []string
		wantErr  string
	}{
		{"nothing is said", Programs{}, func(*corev1.Pod) {}, nil, ""},
		{"annotation", Programs{}, func(p *corev1.Pod) { p.Annotations[RunAnnotation+"web"] = `./web --name 'a b'` }, []string{"./web", "--name", "a b"}, ""},
		{"of another container", Programs{}, func(p *corev1.Pod) { p.Annotations[RunAnnotation+"db"] = "./db" }, nil, ""},
		{"no program", Programs{}, func(p *corev1.Pod) { p.Annotations[RunAnnotation+"web"] = " " }, nil, "no program"},
		{"open quote", Programs{}, func(p *corev1.Pod) { p.Annotations[RunAnnotation+"web"] = "'x" }, nil, RunAnnotation},
		{"its own, unasked", Programs{}, func(*corev1.Pod) {}, nil, ""},
		{"its own", Programs{Host: true}, func(*corev1.Pod) {}, []string{"true", "x"}, ""},
		{"its own, not on this machine", Programs{Host: true}, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"no-such-program"} }, nil, ""},
		{"file, of a Deployment", Programs{File: runFile}, owned("ReplicaSet", "web-5f7"), []string{"./web", "--listen"}, ""},
		{"file, of a StatefulSet", Programs{File: runFile}, owned("StatefulSet", "web"), []string{"./web", "--listen"}, ""},
		{"file, of a CronJob", Programs{File: runFile}, owned("Job", "nightly-29876543"), []string{"./nightly"}, ""},
		{"annotation before file", Programs{File: runFile}, func(p *corev1.Pod) { owned("StatefulSet", "web")(p); p.Annotations[RunAnnotation+"web"] = "./mine" }, []string{"./mine"}, ""},
		{"a proxy", Programs{Proxy: []string{"/proxy"}}, func(p *corev1.Pod) { p.Spec.Containers[0].Name = "linkerd-proxy" }, []string{"/proxy"}, ""},
		{"a proxy, without one", Programs{}, func(p *corev1.Pod) { p.Spec.Containers[0].Name = "linkerd-proxy" }, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := pod(test.change)
			got, err := test.programs.command(p, p.Spec.Containers[0])
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatal(err)
			}
			var args []string
			if got != nil {
				args = got.args
			}
			if !slices.Equal(args, test.want) {
				t.Errorf("%q, want %q", args, test.want)
			}
		})
	}
}

func TestReadRunFile(t *testing.T) {
	for text, want := range map[string]string{
		"shop/web: {web: x}": "", "web: {web: x}": "NAMESPACE/NAME", "shop/deploy/web: {web: x}": "NAMESPACE/NAME", "shop/web: x": "cannot unmarshal",
	} {
		file := filepath.Join(t.TempDir(), "run.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRunFile(file); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestUnable(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"host network": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"host PID":     func(p *corev1.Pod) { p.Spec.HostPID = true },
		"privileged": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
	} {
		p := pod(change)
		if runs, err := (Programs{Host: true}).Runs(p); runs || err == nil {
			t.Errorf("%s: %v, %v", name, runs, err)
		}
		if runs, err := (Programs{}).Runs(p); runs || err != nil {
			t.Errorf("%s, with nothing to run: %v, %v", name, runs, err)
		}
	}
}

// What linkerd-init is told, or the annotations where there is none.
func TestRedirect(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"nothing is said", func(*corev1.Pod) {}, "4143 4140 [4190 4191] [] [] []"},
		{"arguments", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "linkerd-init", Args: []string{"--incoming-proxy-port", "14143", "--outgoing-proxy-port", "14140", "--proxy-uid", "2102",
				"--inbound-ports-to-ignore", "4190,4191,4567-4570", "--outbound-ports-to-ignore", "25", "--subnets-to-ignore", "192.0.2.0/24"}}}
		}, "14143 14140 [4190 4191] [{4190 4190} {4191 4191} {4567 4570}] [{25 25}] [192.0.2.0/24]"},
		{"annotations", func(p *corev1.Pod) {
			p.Annotations["config.linkerd.io/skip-inbound-ports"], p.Annotations["config.linkerd.io/skip-outbound-ports"] = "80", "25,3306"
		}, "4143 4140 [4190 4191] [{80 80}] [{25 25} {3306 3306}] []"},
		{"another admin port", func(p *corev1.Pod) {
			p.Spec.Containers[1].Ports = []corev1.ContainerPort{{Name: "linkerd-admin", ContainerPort: 14191}}
		}, "4143 4140 [4190 14191] [] [] []"},
		{"nonsense", func(p *corev1.Pod) { p.Annotations["config.linkerd.io/skip-inbound-ports"] = "x" }, "inbound ports to skip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := redirect(pod(func(p *corev1.Pod) {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "linkerd-proxy"})
				test.change(p)
			}))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join([]string{text(r.Inbound), text(r.Outbound), text(r.Own), text(r.SkipInbound), text(r.SkipOutbound), text(r.SkipSubnets)}, " ")
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
