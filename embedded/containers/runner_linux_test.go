package containers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// bench is a runner with a sandbox and a made-up API server.
type bench struct {
	*containers.Runner
	t *testing.T
	// hosts say which families of addresses pods have.
	hosts   []netip.Addr
	sandbox *sandbox.Sandbox
	client  *fake.Clientset
	events  *record.FakeRecorder
	last    int

	mu      sync.Mutex
	changed chan struct{}
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	return newBenchWith(t, containers.Config{}, objects...)
}

// newBenchWith is newBench with some fields of a configuration.
func newBenchWith(t *testing.T, config containers.Config, objects ...runtime.Object) *bench {
	t.Helper()
	return newBenchAt(t, []netip.Addr{netip.MustParseAddr("10.244.0.1")}, config, objects...)
}

// newBenchAt is newBenchWith with a network of the families of hosts.
func newBenchAt(t *testing.T, hosts []netip.Addr, config containers.Config, objects ...runtime.Object) *bench {
	t.Helper()
	s := sandboxtest.Start(t, sandbox.Config{Hosts: hosts, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	b := &bench{t: t, hosts: hosts, client: fake.NewClientset(objects...), events: record.NewFakeRecorder(10_000), changed: make(chan struct{})}
	config.Sandbox, config.Client, config.Events = s, b.client, b.events
	config.ClusterDomain, config.DNS = "cluster.local", netip.MustParseAddr("10.96.0.10")
	config.Programs.Dir, config.StopWithin, config.Log = "/", time.Second, slog.New(slog.DiscardHandler)
	if config.Out == nil {
		config.Out = io.Discard
	}
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	config.Changed = func(string, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.changed)
		b.changed = make(chan struct{})
	}
	b.Runner, b.sandbox = containers.New(config), s
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- b.Runner.Run(ctx, func() { close(ready) }) }()
	<-ready
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error("runner ended:", err)
		}
	})
	return b
}

// add adds a pod whose spec is this YAML. Each container without a command of its own runs its
// command, given in the field that images have.
func (b *bench) add(spec string) types.UID {
	b.t.Helper()
	return b.addWith(spec, func(*corev1.Pod) {})
}

// addWith is add of a pod that is changed before.
func (b *bench) addWith(spec string, change func(*corev1.Pod)) types.UID {
	b.t.Helper()
	b.last++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprintf("pod-%d", b.last), UID: types.UID(fmt.Sprintf("uid-%d", b.last)), Annotations: map[string]string{},
	}}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		b.t.Fatal(err)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Image != "" && !strings.HasPrefix(c.Image, "image.test/") {
			pod.Annotations[containers.RunAnnotation+c.Name] = c.Image
		}
	}
	change(pod)
	if runs, err := b.Runs(pod); err != nil || !runs {
		b.t.Fatal(runs, err)
	}
	var addresses []netip.Addr
	for _, host := range b.hosts {
		address := host.AsSlice()
		address[len(address)-1] = byte(10 + b.last)
		addr, _ := netip.AddrFromSlice(address)
		addresses = append(addresses, addr)
	}
	b.Sync(pod, addresses)
	return pod.UID
}

// await waits until the status of a pod is as wanted.
func (b *bench) await(uid types.UID, what string, is func(kubelet.RunStatus) bool) kubelet.RunStatus {
	b.t.Helper()
	deadline := time.After(60 * time.Second)
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		status, ok := b.Status(uid)
		if ok && is(status) {
			return status
		}
		select {
		case <-changed:
		case <-time.After(50 * time.Millisecond): // it may be about a log
		case <-deadline:
			text, _ := yaml.Marshal(status)
			b.t.Fatalf("never: %s\n%s", what, text)
		}
	}
}

func phase(want corev1.PodPhase) func(kubelet.RunStatus) bool {
	return func(s kubelet.RunStatus) bool { return s.Phase == want }
}

// log is what a container has written, without times.
func (b *bench) log(uid types.UID, container string) string {
	b.t.Helper()
	path, _, err := b.Log("shop", strings.Replace(string(uid), "uid", "pod", 1), container, false)
	if err != nil {
		b.t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(string(data)) {
		_, line, _ = strings.Cut(line, " ")
		text.WriteString(line)
	}
	return text.String()
}

func TestOutcomes(t *testing.T) {
	b := newBench(t,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "conf"}, Data: map[string]string{"a": "1", "b": "2"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "secret"}, Data: map[string][]byte{"key": []byte("s3")}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.1.1", Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}},
	)
	for _, test := range []struct {
		name, spec string
		phase      corev1.PodPhase
		exit       int32
		reason     string
		output     string
	}{
		{"success", `{restartPolicy: Never, containers: [{name: c, image: "sh -c 'echo out; echo err >&2'"}]}`, "Succeeded", 0, "Completed", "out"},
		{"failure", `{restartPolicy: Never, containers: [{name: c, image: "sh -c 'exit 3'"}]}`, "Failed", 3, "Error", ""},
		{"a program that is not there", `{restartPolicy: Never, containers: [{name: c, image: "no-such-program"}]}`, "Failed", 128, "StartError", ""},
		{"init containers come before", `{restartPolicy: Never, volumes: [{name: v, emptyDir: {}}],
			initContainers: [{name: i, image: "sh -c 'echo made >/v/x'", volumeMounts: [{name: v, mountPath: /v}]}],
			containers: [{name: c, image: "cat /v/x", volumeMounts: [{name: v, mountPath: /v}]}]}`, "Succeeded", 0, "Completed", "made"},
		{"variables", `{restartPolicy: Never, containers: [{name: c, image: "sh -c 'echo $A $B $C $D $E $F'",
			envFrom: [{configMapRef: {name: conf}, prefix: P_}],
			env: [{name: A, value: x}, {name: B, value: "$(A)y"}, {name: C, valueFrom: {secretKeyRef: {name: secret, key: key}}},
			{name: D, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: E, value: "$(WEB_SERVICE_HOST)"}, {name: F, value: "$(P_b)$(NOT)"}]}]}`,
			"Succeeded", 0, "Completed", "x xy s3 10.244.0.15 10.96.1.1 2$(NOT)"},
		{"files", `{restartPolicy: Never, volumes: [{name: p, projected: {sources: [{configMap: {name: conf, items: [{key: a, path: d/one}]}}, {secret: {name: secret}},
			{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}],
			containers: [{name: c, image: "sh -c 'cat /p/d/one /p/key /p/name; echo; head -1 /etc/resolv.conf; hostname'", volumeMounts: [{name: p, mountPath: /p}]}]}`,
			"Succeeded", 0, "Completed", "1s3pod-6\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\npod-6"},
		{"a deadline", `{restartPolicy: Never, activeDeadlineSeconds: 1, terminationGracePeriodSeconds: 1, containers: [{name: c, image: "sleep 1000"}]}`, "Failed", 137, "Error", ""},
		{"a failed init container", `{restartPolicy: Never, initContainers: [{name: i, image: "false"}], containers: [{name: c, image: "true"}]}`, "Failed", 0, "", ""},
		{"a sidecar ends after the rest", `{restartPolicy: Never, initContainers: [{name: s, image: "sh -c 'trap \"exit 0\" TERM; while :; do sleep 0.1; done'", restartPolicy: Always}],
			containers: [{name: c, image: "echo x"}]}`, "Succeeded", 0, "Completed", "x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b.t = t
			uid := b.add(test.spec)
			s := b.await(uid, string(test.phase), phase(test.phase))
			if ended := s.Containers[0].State.Terminated; test.reason != "" && (ended == nil || ended.ExitCode != test.exit || ended.Reason != test.reason) {
				t.Errorf("%+v, want %s %d", s.Containers[0].State, test.reason, test.exit)
			}
			if test.output == "" {
				return
			}
			var want strings.Builder
			for line := range strings.Lines(test.output) {
				fmt.Fprintf(&want, "stdout F %s\n", strings.TrimSuffix(line, "\n"))
			}
			if got := b.log(uid, "c"); !strings.Contains(got, want.String()) {
				t.Errorf("log:\n%s\nwant\n%s", got, want.String())
			}
		})
	}
}

// A pod of both families knows its addresses, and its ports are found at either.
func TestBothFamilies(t *testing.T) {
	b := newBenchAt(t, []netip.Addr{netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("fd00:10:244::1")}, containers.Config{})
	uid := b.add(`{restartPolicy: Never, containers: [{name: c, image: "sh -c 'echo $IP $IPS; grep pod-1 /etc/hosts'",
		env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]}]}`)
	b.await(uid, "Succeeded", phase(corev1.PodSucceeded))
	want := "stdout F 10.244.0.11 10.244.0.11,fd00:10:244::b\nstdout F 10.244.0.11\tpod-1\nstdout F fd00:10:244::b\tpod-1\n"
	if got := b.log(uid, "c"); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
	uid = b.add(`{containers: [{name: c, image: "sleep 1000"}]}`)
	b.await(uid, "Running", phase(corev1.PodRunning))
	for _, host := range []string{"::1", "fd00:10:244::c"} {
		l, err := b.sandbox.Listen(t.Context(), sandbox.Place{Pod: string(uid)}, netip.AddrPortFrom(netip.MustParseAddr(host), 8080))
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Dial(t.Context(), "shop", "pod-2", 8080)
		if err != nil {
			t.Errorf("a port at %s: %v", host, err)
		} else {
			c.Close()
		}
		l.Close()
	}
}

func TestRestart(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{containers: [{name: c, image: "sh -c 'exit 1'"}]}`)
	s := b.await(uid, "two restarts", func(s kubelet.RunStatus) bool { return s.Containers[0].RestartCount >= 2 })
	if last := s.Containers[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 1 {
		t.Errorf("last state %+v", s.Containers[0].LastTerminationState)
	}
	b.await(uid, "back-off", func(s kubelet.RunStatus) bool {
		waiting := s.Containers[0].State.Waiting
		return waiting != nil && waiting.Reason == "CrashLoopBackOff"
	})
	if s.Phase != corev1.PodRunning {
		t.Errorf("phase %s", s.Phase)
	}
}

// What a container refers to may come to be later.
func TestMissingReference(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{restartPolicy: Never, containers: [{name: c, image: "sh -c 'echo $A'", env: [{name: A, valueFrom: {configMapKeyRef: {name: later, key: a}}}]}]}`)
	b.await(uid, "CreateContainerConfigError", func(s kubelet.RunStatus) bool {
		waiting := s.Containers[0].State.Waiting
		return waiting != nil && waiting.Reason == "CreateContainerConfigError" && strings.Contains(waiting.Message, "later")
	})
	later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}, Data: map[string]string{"a": "here"}}
	if _, err := b.client.CoreV1().ConfigMaps("shop").Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await(uid, "success", phase(corev1.PodSucceeded))
	if got := b.log(uid, "c"); got != "stdout F here\n" {
		t.Error(got)
	}
}

func TestProbes(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{terminationGracePeriodSeconds: 1, volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: "sleep 1000", volumeMounts: [{name: v, mountPath: /v}],
		startupProbe: {exec: {command: ["test", "-e", "/v/started"]}, periodSeconds: 1, failureThreshold: 600},
		readinessProbe: {exec: {command: ["test", "-e", "/v/ready"]}, periodSeconds: 1, failureThreshold: 1},
		livenessProbe: {exec: {command: ["test", "!", "-e", "/v/dead"]}, periodSeconds: 1, failureThreshold: 1}}]}`)
	exec := func(command ...string) {
		t.Helper()
		if err := b.Exec(t.Context(), "shop", "pod-1", "c", command, containers.Streams{}); err != nil {
			t.Fatal(err)
		}
	}
	s := b.await(uid, "running", func(s kubelet.RunStatus) bool { return s.Containers[0].State.Running != nil })
	if *s.Containers[0].Started || s.Containers[0].Ready {
		t.Error("started or ready too early")
	}
	exec("touch", "/v/started")
	s = b.await(uid, "started", func(s kubelet.RunStatus) bool { return *s.Containers[0].Started })
	if s.Containers[0].Ready {
		t.Error("ready too early")
	}
	exec("touch", "/v/ready")
	b.await(uid, "ready", func(s kubelet.RunStatus) bool { return s.Containers[0].Ready })
	exec("rm", "/v/ready")
	b.await(uid, "not ready", func(s kubelet.RunStatus) bool { return !s.Containers[0].Ready && s.Containers[0].State.Running != nil })
	exec("touch", "/v/dead")
	b.await(uid, "restarted", func(s kubelet.RunStatus) bool { return s.Containers[0].RestartCount == 1 })
}

func TestEnd(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: "sh -c 'trap \"echo term; cat /v/hook; exit 0\" TERM; echo up; while :; do sleep 0.1; done'",
		volumeMounts: [{name: v, mountPath: /v}], lifecycle: {preStop: {exec: {command: [sh, -c, "echo hook >/v/hook"]}}}}]}`)
	b.await(uid, "running", func(s kubelet.RunStatus) bool {
		return s.Containers[0].State.Running != nil && strings.Contains(b.log(uid, "c"), "up")
	})
	b.End(uid, 30*time.Second)
	b.await(uid, "end", func(kubelet.RunStatus) bool { return b.End(uid, 30*time.Second) })
	if got := b.log(uid, "c"); got != "stdout F up\nstdout F term\nstdout F hook\n" {
		t.Error(got)
	}
	stubborn := b.add(`{containers: [{name: c, image: "sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.1; done'"}]}`)
	b.await(stubborn, "running", func(s kubelet.RunStatus) bool { return s.Containers[0].State.Running != nil })
	b.End(stubborn, time.Second)
	b.await(stubborn, "end", func(kubelet.RunStatus) bool { return b.End(stubborn, time.Second) })
	if s, _ := b.Status(stubborn); s.Containers[0].State.Terminated.Signal != 9 {
		t.Errorf("%+v", s.Containers[0].State)
	}
}

func TestExec(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{containers: [{name: c, image: "sh -c 'echo up; sleep 1000'", env: [{name: A, value: x}]}]}`)
	b.await(uid, "running", func(s kubelet.RunStatus) bool { return s.Containers[0].State.Running != nil })
	var out, errOut bytes.Buffer
	err := b.Exec(t.Context(), "shop", "pod-1", "c", []string{"sh", "-c", "echo $A; cat; echo bad >&2; exit 4"}, containers.Streams{In: strings.NewReader("in"), Out: &out, ErrOut: &errOut})
	var code utilexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 4 || out.String() != "x\nin" || errOut.String() != "bad\n" {
		t.Errorf("%v, %q, %q", err, out.String(), errOut.String())
	}
	out.Reset()
	if err := b.Exec(t.Context(), "shop", "pod-1", "c", []string{"sh", "-c", "test -t 0 && echo terminal"}, containers.Streams{Out: &out, Terminal: true}); err != nil || out.String() != "terminal\r\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	if err := b.Exec(t.Context(), "shop", "pod-2", "c", []string{"true"}, containers.Streams{}); err == nil {
		t.Error("a pod that is not there")
	}
}

// What a claim has outlives the pod.
func TestClaim(t *testing.T) {
	b := newBench(t)
	spec := `{restartPolicy: Never, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], containers: [{name: c, image: "sh -c 'cat /v/x; echo kept >/v/x'", volumeMounts: [{name: v, mountPath: /v}]}]}`
	first := b.add(spec)
	b.await(first, "success", phase(corev1.PodSucceeded))
	b.Forget(first)
	second := b.add(spec)
	b.await(second, "success", phase(corev1.PodSucceeded))
	if got := b.log(second, "c"); got != "stdout F kept\n" {
		t.Error(got)
	}
}
