package containers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
)

// event waits for an event that has all of the words, in the form "Normal Reason message".
func (b *bench) event(words ...string) {
	b.t.Helper()
	var others []string
	deadline := time.After(60 * time.Second)
next:
	for {
		select {
		case event := <-b.events.Events:
			others = append(others, event)
			for _, word := range words {
				if !strings.Contains(event, word) {
					continue next
				}
			}
			return
		case <-deadline:
			b.t.Fatalf("no event with %q among\n%s", words, strings.Join(others, "\n"))
		}
	}
}

// waits is that the first container waits for this reason, with these words in its message.
func waits(reason string, words ...string) func(kubelet.RunStatus) bool {
	return func(s kubelet.RunStatus) bool {
		waiting := s.Containers[0].State.Waiting
		if waiting == nil || waiting.Reason != reason {
			return false
		}
		for _, word := range words {
			if !strings.Contains(waiting.Message, word) {
				return false
			}
		}
		return true
	}
}

func runs(s kubelet.RunStatus) bool { return s.Containers[0].State.Running != nil }

// gone ends a pod, and waits until nothing of it is left.
func (b *bench) gone(uid types.UID, grace time.Duration) {
	b.t.Helper()
	b.End(uid, grace)
	b.await(uid, "end", func(kubelet.RunStatus) bool { return b.End(uid, grace) })
}

// What is too long for a process says so.
func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	b := newBench(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "long"}, Data: map[string]string{"a": long, "b": long[:140_000]}})
	for key, message := range map[string]string{"a": "190000 are possible", "b": "argument list too long"} {
		uid := b.add(fmt.Sprintf(`{restartPolicy: Never, containers: [{name: c, image: "true", env: [{name: A, valueFrom: {configMapKeyRef: {name: long, key: %s}}}]}]}`, key))
		s := b.await(uid, "failed", phase(corev1.PodFailed))
		if ended := s.Containers[0].State.Terminated; ended == nil || ended.Reason != "StartError" || !strings.Contains(ended.Message, message) {
			t.Errorf("%s: %.300s", key, fmt.Sprint(ended))
		}
	}
}

// A pod whose volumes are not there waits as in a cluster, and may be deleted meanwhile.
func TestMissingVolumes(t *testing.T) {
	b := newBench(t)
	for _, volume := range []struct{ spec, event string }{
		{`configMap: {name: later}`, `MountVolume.SetUp failed for volume "v" : configmap "later" not found`},
		{`secret: {secretName: later}`, `MountVolume.SetUp failed for volume "v" : secret "later" not found`},
		{`projected: {sources: [{secret: {name: later}}]}`, `MountVolume.SetUp failed for volume "v" : secret "later" not found`},
		{`hostPath: {path: /etc}`, `MountVolume.SetUp failed for volume "v" : hostPath /etc is not allowed: say --run-host-path=/etc`},
		{`nfs: {server: x, path: /}`, `MountVolume.SetUp failed for volume "v" : only `},
	} {
		uid := b.add(fmt.Sprintf(`{volumes: [{name: v, %s}], containers: [{name: c, image: "true", volumeMounts: [{name: v, mountPath: /v}]}]}`, volume.spec))
		b.event("Warning FailedMount " + volume.event)
		s := b.await(uid, "ContainerCreating", waits("ContainerCreating"))
		if s.Phase != corev1.PodPending || s.Prepared {
			t.Errorf("%s: %+v", volume.spec, s)
		}
		b.gone(uid, 30*time.Second)
	}
	uid := b.add(`{restartPolicy: Never, volumes: [{name: v, configMap: {name: later}}], containers: [{name: c, image: "cat /v/a", volumeMounts: [{name: v, mountPath: /v}]}]}`)
	b.event("Warning FailedMount ")
	later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}, Data: map[string]string{"a": "here\n"}}
	if _, err := b.client.CoreV1().ConfigMaps("shop").Create(t.Context(), later, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await(uid, "success", phase(corev1.PodSucceeded))
	if got := b.log(uid, "c"); got != "stdout F here\n" {
		t.Error(got)
	}
}

// A pod that is deleted while it waits does not wait any longer, whatever for.
func TestDeletedWhileWaiting(t *testing.T) {
	b := newBench(t)
	crashing := b.add(`{containers: [{name: c, image: "false"}]}`)
	b.event("Warning BackOff Back-off restarting failed container c in pod pod-1_shop(uid-1)")
	b.await(crashing, "back-off", waits("CrashLoopBackOff", "back-off 1s restarting failed container=c pod=pod-1_shop(uid-1)"))
	b.gone(crashing, 30*time.Second)
	unset := b.add(`{containers: [{name: c, image: "true", envFrom: [{secretRef: {name: later}}]}]}`)
	b.await(unset, "CreateContainerConfigError", waits("CreateContainerConfigError", `secret "later" not found`))
	b.event(`Warning Failed Error: secret "later" not found`)
	b.gone(unset, 30*time.Second)
	if s, _ := b.Status(unset); s.Containers[0].RestartCount != 0 {
		t.Errorf("a container that never ran was restarted %d times", s.Containers[0].RestartCount)
	}
	starting := b.add(`{initContainers: [{name: i, image: "sleep 1000"}], containers: [{name: c, image: "true"}]}`)
	b.await(starting, "init container", func(s kubelet.RunStatus) bool { return s.Init[0].State.Running != nil })
	b.gone(starting, 0)
}

// silent accepts connections and never answers; it counts those that are open.
func silent(t *testing.T, s *sandbox.Sandbox, at string) *atomic.Int32 {
	t.Helper()
	l, err := s.Listen(t.Context(), sandbox.Place{}, netip.MustParseAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var open atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func(conn net.Conn) {
				_, _ = io.Copy(io.Discard, conn) // until the other side closes
				conn.Close()
				open.Add(-1)
			}(conn)
		}
	}()
	return &open
}

// Probes that nobody answers end at their timeout, and leave nothing behind.
func TestSilentProbes(t *testing.T) {
	b := newBench(t)
	open := silent(t, b.sandbox, "10.244.0.1:8080")
	uid := b.add(`{terminationGracePeriodSeconds: 1, containers: [
		{name: http, image: "sleep 1000", readinessProbe: {httpGet: {host: 10.244.0.1, port: 8080}, periodSeconds: 1, timeoutSeconds: 1}},
		{name: exec, image: "sleep 1000", readinessProbe: {exec: {command: [sh, -c, "sleep 10007 & sleep 10007"]}, periodSeconds: 1, timeoutSeconds: 1}}]}`)
	b.await(uid, "running", runs)
	for range 3 {
		b.event("Warning Unhealthy Readiness probe failed: Get \"http://10.244.0.1:8080\"", "deadline exceeded")
		b.event("Warning Unhealthy Readiness probe failed: ", "timed out")
	}
	if n := open.Load(); n > 2 {
		t.Errorf("%d connections are open", n)
	}
	var out bytes.Buffer
	err := b.Exec(t.Context(), "shop", "pod-1", "exec", []string{"sh", "-c", "ps ax | grep -c '[1]0007'; true"}, containers.Streams{Out: &out})
	if err != nil || strings.TrimSpace(out.String()) > "3" { // one attempt may be under way
		t.Errorf("commands of probes: %s, %v", out.String(), err)
	}
	b.gone(uid, time.Second)
}

// impatient is a clock whose timers do not wait long.
type impatient struct{ clock.RealClock }

func (impatient) NewTimer(d time.Duration) clock.Timer {
	return clock.RealClock{}.NewTimer(min(d, time.Millisecond))
}

func count(t *testing.T, pattern string) int {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// Hundreds of restarts leave no files, threads or logs but the last two.
func TestManyRestarts(t *testing.T) {
	dir := t.TempDir()
	b := newBenchWith(t, containers.Config{Dir: dir, Clock: impatient{}, Programs: containers.Programs{Images: store(t, map[string]v1.Image{
		"image.test/nothing:1": image(t, runtime.GOARCH, []string{"/x"}),
	})}})
	uid := b.add(`{containers: [{name: c, image: "sh -c 'echo x; exit 1'"}, {name: i, image: "image.test/nothing:1"}]}`)
	restarted := func(n int32) func(kubelet.RunStatus) bool {
		return func(s kubelet.RunStatus) bool {
			return s.Containers[0].RestartCount >= n && s.Containers[1].RestartCount >= n
		}
	}
	child := func() string { return fmt.Sprintf("/proc/%d", b.sandbox.PID()) }
	b.await(uid, "restarts", restarted(20))
	files, inside, threads := count(t, "/proc/self/fd/*"), count(t, child()+"/fd/*"), count(t, child()+"/task/*")
	b.await(uid, "many restarts", restarted(300))
	if now := count(t, "/proc/self/fd/*"); now > files+10 {
		t.Errorf("%d files are open after %d before", now, files)
	}
	if now := count(t, child()+"/fd/*"); now > inside+10 {
		t.Errorf("%d files are open in the sandbox after %d before", now, inside)
	}
	if now := count(t, child()+"/task/*"); now > threads+10 {
		t.Errorf("%d threads are in the sandbox after %d before", now, threads)
	}
	b.gone(uid, 0)
	if logs, err := filepath.Glob(filepath.Join(dir, "pods/*/logs/c/*")); err != nil || len(logs) > 2 {
		t.Errorf("%d logs, %v", len(logs), err)
	}
	if scratch, err := filepath.Glob(filepath.Join(dir, "pods/*/scratch/i/*")); err != nil || len(scratch) > 1 {
		t.Errorf("%d scratch directories, %v", len(scratch), err)
	}
	b.Forget(uid)
	if left := count(t, filepath.Join(dir, "pods/*")); left != 0 {
		t.Errorf("%d directories are left of a pod that is gone", left)
	}
}

// What a former process has run has ended with it. The policy says what is run again.
func TestResumed(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	success := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	failure := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}}
	b := newBench(t)
	for _, test := range []struct {
		policy   corev1.RestartPolicy
		before   corev1.ContainerState
		phase    corev1.PodPhase
		reason   string // of the container's end, or of the last one
		restarts int32
		again    bool
	}{
		{corev1.RestartPolicyNever, running, corev1.PodFailed, "ContainerStatusUnknown", 2, false},
		{corev1.RestartPolicyNever, success, corev1.PodSucceeded, "Completed", 2, false},
		{corev1.RestartPolicyNever, failure, corev1.PodFailed, "Error", 2, false},
		{corev1.RestartPolicyOnFailure, success, corev1.PodSucceeded, "Completed", 2, false},
		{corev1.RestartPolicyOnFailure, running, corev1.PodSucceeded, "ContainerStatusUnknown", 3, true},
		{corev1.RestartPolicyOnFailure, failure, corev1.PodSucceeded, "Error", 3, true},
		{corev1.RestartPolicyAlways, running, corev1.PodRunning, "ContainerStatusUnknown", 3, true},
	} {
		uid := b.addWith(fmt.Sprintf(`{restartPolicy: %s, containers: [{name: c, image: "echo again"}]}`, test.policy), func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "lite://x", RestartCount: 2, State: test.before}}
		})
		s := b.await(uid, "end", func(s kubelet.RunStatus) bool {
			return s.Phase == test.phase && (s.Phase != corev1.PodRunning || s.Containers[0].State.Running != nil || s.Containers[0].State.Waiting != nil || s.Containers[0].State.Terminated != nil)
		})
		c := s.Containers[0]
		ended := c.State.Terminated
		if test.again {
			b.event("Normal SandboxChanged Pod sandbox changed, it will be killed and re-created.")
			b.event("Normal Started Container started")
			ended = c.LastTerminationState.Terminated
		}
		if test.phase != corev1.PodRunning && (ended == nil || ended.Reason != test.reason || c.RestartCount != test.restarts) {
			t.Errorf("%s after %+v: %+v", test.policy, test.before, c)
		}
	}
}

// Sidecars end in the order opposite to that of their starts, and get their grace.
func TestSidecars(t *testing.T) {
	b := newBench(t)
	sidecar := `{name: %s, restartPolicy: Always, image: "sh -c 'trap \"sleep 0.2; echo %s >>/v/order; exit 0\" TERM; while :; do sleep 0.05; done'", volumeMounts: [{name: v, mountPath: /v}]}`
	uid := b.add(fmt.Sprintf(`{restartPolicy: Never, volumes: [{name: v, emptyDir: {}}], initContainers: [{name: out, restartPolicy: Always, image: "sh -c 'trap \"cat /v/order; exit 0\" TERM; while :; do sleep 0.05; done'", volumeMounts: [{name: v, mountPath: /v}]}, %s, %s],
		containers: [{name: c, image: "sleep 0.5"}]}`, fmt.Sprintf(sidecar, "one", "one"), fmt.Sprintf(sidecar, "two", "two")))
	b.await(uid, "success", phase(corev1.PodSucceeded))
	if got := b.log(uid, "out"); got != "stdout F two\nstdout F one\n" {
		t.Error(got)
	}
	for _, name := range []string{"c", "two", "one", "out"} {
		if name != "c" {
			b.event("Normal Killing Stopping container " + name)
		}
	}
}

// A terminal that goes away takes what runs in it along.
func TestClientGone(t *testing.T) {
	b := newBench(t)
	uid := b.add(`{containers: [{name: c, image: "sleep 1000"}]}`)
	b.await(uid, "running", runs)
	for _, terminal := range []bool{true, false} {
		ctx, gone := context.WithCancel(t.Context())
		out, said := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- b.Exec(ctx, "shop", "pod-1", "c", []string{"sh", "-c", "echo up; sleep 10009; sleep 10009"}, containers.Streams{Out: said, Terminal: terminal})
		}()
		if _, err := out.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		gone()
		<-ended
		b.await(uid, "end of what the client ran", func(kubelet.RunStatus) bool {
			var list bytes.Buffer
			err := b.Exec(t.Context(), "shop", "pod-1", "c", []string{"ps", "ax"}, containers.Streams{Out: &list})
			return err == nil && !strings.Contains(list.String(), "10009")
		})
		out.Close()
	}
	attended := b.addWith(`{restartPolicy: Never, containers: [{name: c, stdin: true, image: "sleep 1000"}]}`, func(pod *corev1.Pod) {
		pod.Annotations[containers.AwaitAttachAnnotation] = "true"
		if err := b.client.Tracker().Add(pod.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	})
	b.await(attended, "wait for a client", waits(containers.AwaitingAttach))
	ctx, gone := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Attach(ctx, "shop", "pod-2", "c", containers.Streams{In: bytes.NewReader(nil)}) }()
	b.await(attended, "running", runs)
	gone()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := b.client.CoreV1().Pods("shop").Get(t.Context(), "pod-2", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod of a client that has gone is there: %v", err)
	}
}

// Limits that are not enforced are said to be so, once.
func TestLimits(t *testing.T) {
	var out bytes.Buffer
	b := newBenchWith(t, containers.Config{Out: &out})
	for range 2 {
		uid := b.add(`{restartPolicy: Never, containers: [{name: c, image: "true", resources: {limits: {memory: 10Mi}}}]}`)
		b.await(uid, "success", phase(corev1.PodSucceeded))
		b.gone(uid, 0)
	}
	if n := strings.Count(out.String(), "not enforced"); n != 1 {
		t.Errorf("said %d times:\n%s", n, out.String())
	}
}
