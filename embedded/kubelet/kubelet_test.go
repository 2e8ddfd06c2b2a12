package kubelet

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/logs"
)

func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{
				Name: "app", Image: "app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

func ofJob(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: ptr.To(true)}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
}

var dualStack = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/64")}

func TestPodBecomesReady(t *testing.T) {
	a := newAPI(t)
	a.started(Config{Nodes: []Node{{Name: "lite", Zone: "east"}}, PodCIDRs: dualStack, Port: 10250})
	a.createPod(newPod("web", func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}, {Name: "linkerd-proxy", Image: "proxy:1", RestartPolicy: &always}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "missing"},
		}}}}
	}))
	pod := a.awaitReady("web")
	if pod.Spec.NodeName != "lite" || len(pod.Spec.Volumes) != 1 {
		t.Errorf("spec of the pod = %+v", pod.Spec)
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	want := corev1.PodStatus{
		ObservedGeneration: 1,
		Phase:              corev1.PodRunning,
		HostIP:             "10.244.255.254",
		HostIPs:            []corev1.HostIP{{IP: "10.244.255.254"}, {IP: "fd00:10:244:0:ffff:ffff:ffff:ffff"}},
		PodIP:              "10.244.0.2",
		PodIPs:             []corev1.PodIP{{IP: "10.244.0.2"}, {IP: "fd00:10:244::2"}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReadyToStartContainers, Status: "True", ObservedGeneration: 1},
			{Type: corev1.PodInitialized, Status: "True", ObservedGeneration: 1},
			{Type: corev1.PodReady, Status: "True", ObservedGeneration: 1},
			{Type: corev1.ContainersReady, Status: "True", ObservedGeneration: 1},
			{Type: corev1.PodScheduled, Status: "True", ObservedGeneration: 1},
		},
		InitContainerStatuses: []corev1.ContainerStatus{
			{
				Name: "init", Image: "init:1", ImageID: "init:1", ContainerID: "lite://UID/init", Ready: true, Started: ptr.To(false),
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", ContainerID: "lite://UID/init"}},
			},
			{
				Name: "linkerd-proxy", Image: "proxy:1", ImageID: "proxy:1", ContainerID: "lite://UID/linkerd-proxy",
				Ready: true, Started: ptr.To(true), State: running,
			},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Image: "app:1", ImageID: "app:1", ContainerID: "lite://UID/app", Ready: true, Started: ptr.To(true), State: running,
		}},
	}
	if pod.Status.StartTime == nil {
		t.Error("the pod has no start time")
	}
	pod.Status.StartTime = nil
	noTimes := cmpopts.IgnoreTypes(metav1.Time{})
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			statuses[i].ContainerID = strings.Replace(statuses[i].ContainerID, string(pod.UID), "UID", 1)
			if terminated := statuses[i].State.Terminated; terminated != nil {
				terminated.ContainerID = statuses[i].ContainerID
			}
		}
	}
	if diff := cmp.Diff(want, pod.Status, noTimes); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	node, err := a.client.CoreV1().Nodes().Get(t.Context(), "lite", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("the kubelet's port is %d", port)
	}
	if node.Labels["topology.kubernetes.io/zone"] != "east" || !nodeReady(node) || len(node.Spec.Taints) != 0 {
		t.Errorf("node = %+v", node)
	}
	a.settled()
	if writes := a.settled(); len(writes) > 0 {
		t.Errorf("an idle kubelet wrote: %q", writes)
	}
}

func TestPlacement(t *testing.T) {
	zone := func(value string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"topology.kubernetes.io/zone": value} }
	}
	daemon := func(node string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}}}},
			}}}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		node   string
		reason string
	}{
		{"any", func(*corev1.Pod) {}, "a", ""},
		{"nodeName", func(pod *corev1.Pod) { pod.Spec.NodeName = "b" }, "b", ""},
		{"nodeSelector", zone("west"), "b", ""},
		{"nodeSelector of no node", zone("north"), "", "0/3 nodes are available: 3 node(s) didn't match the pod's nodeSelector or node affinity."},
		{"affinity of a DaemonSet", daemon("b"), "b", ""},
		{"affinity to no node", daemon("x"), "", "0/3 nodes are available: 3 node(s) didn't match the pod's nodeSelector or node affinity."},
		{
			"taint", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"gpu": "yes"} }, "",
			"0/3 nodes are available: 1 node(s) had the untolerated taint {gpu:NoSchedule}, 2 node(s) didn't match the pod's nodeSelector or node affinity.",
		},
		{"toleration", func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{"gpu": "yes"}
			pod.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		}, "c", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Node c comes from a manifest: it has no status of its own.
			a := newAPI(t, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"gpu": "yes"}},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}},
			})
			a.started(Config{Nodes: []Node{{Name: "a", Zone: "east"}, {Name: "b", Zone: "west"}}})
			a.createPod(newPod("web", test.change))
			if test.node != "" {
				if pod := a.awaitReady("web"); pod.Spec.NodeName != test.node {
					t.Errorf("pod is on %q, want %q", pod.Spec.NodeName, test.node)
				}
				return
			}
			pod := a.await("web", "unschedulable", func(pod *corev1.Pod) bool { return condition(pod, corev1.PodScheduled).Status == "False" })
			if got := condition(pod, corev1.PodScheduled); got.Reason != "Unschedulable" || got.Message != test.reason {
				t.Errorf("condition = %+v, want message %q", got, test.reason)
			}
			if pod.Status.Phase != corev1.PodPending {
				t.Errorf("phase = %s", pod.Status.Phase)
			}
			a.awaitEvent("FailedScheduling")
		})
	}
}

func (a *api) awaitEvent(reason string) (message string) {
	a.t.Helper()
	a.eventually(func() bool {
		events, err := a.client.CoreV1().Events("ns").List(a.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		i := slices.IndexFunc(events.Items, func(e corev1.Event) bool { return e.Reason == reason })
		if i >= 0 {
			message = events.Items[i].Message
		}
		return i >= 0
	}, func() string { return "no event " + reason })
	return message
}

func TestPodsSpreadOverNodes(t *testing.T) {
	a := newAPI(t)
	a.started(Config{Nodes: []Node{{Name: "a"}, {Name: "b"}}})
	on := map[string]int{}
	for i := range 10 {
		a.createPod(newPod(fmt.Sprintf("web-%d", i)))
	}
	for i := range 10 {
		on[a.awaitReady(fmt.Sprintf("web-%d", i)).Spec.NodeName]++
	}
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 5}, on); diff != "" {
		t.Errorf("pods by node (-want +got):\n%s", diff)
	}
}

func TestPendingPodFollowsNodes(t *testing.T) {
	a := newAPI(t)
	a.started(Config{})
	a.createPod(newPod("selects", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	a.createPod(newPod("names", func(pod *corev1.Pod) { pod.Spec.NodeName = "later" }))
	a.await("selects", "unschedulable", func(pod *corev1.Pod) bool { return condition(pod, corev1.PodScheduled).Status == "False" })
	pod := a.await("names", "refused", func(pod *corev1.Pod) bool { return condition(pod, corev1.PodReady).Reason == "NodeNotFound" })
	if pod.Status.Phase != corev1.PodPending || pod.Status.PodIP != "" {
		t.Errorf("status of a pod without node = %+v", pod.Status)
	}
	_, err := a.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "later", Labels: map[string]string{"disk": "ssd"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"selects", "names"} {
		if pod := a.awaitReady(name); pod.Spec.NodeName != "later" {
			t.Errorf("pod %s is on %q", name, pod.Spec.NodeName)
		}
	}
	// The node goes, and what ran on it goes with it.
	if err := a.client.CoreV1().Nodes().Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.awaitGone("selects")
	a.awaitGone("names")
	// The configured one comes back.
	if err := a.client.CoreV1().Nodes().Delete(t.Context(), DefaultNode, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.eventually(func() bool {
		node, err := a.client.CoreV1().Nodes().Get(t.Context(), DefaultNode, metav1.GetOptions{})
		return err == nil && nodeReady(node) && len(node.Spec.Taints) == 0
	}, func() string { return "the configured node did not come back" })
}

func (a *api) awaitGone(name string) {
	a.t.Helper()
	a.eventually(func() bool {
		_, err := a.tracker.Get(podsResource, "ns", name)
		return err != nil
	}, func() string { return "pod " + name + " did not go" })
}

// What the API server refuses as invalid is sent once per version of the Pod.
func TestRefusedStatus(t *testing.T) {
	a := newAPI(t)
	var refused sync.Map
	a.client.PrependReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.UpdateAction).GetObject().(*corev1.Pod)
		if action.GetSubresource() != "status" || pod.Labels["status"] != "refused" {
			return false, nil, nil
		}
		if _, again := refused.LoadOrStore(pod.ResourceVersion, true); again {
			t.Errorf("sent again for version %s", pod.ResourceVersion)
		}
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, pod.Name, nil)
	})
	a.started(Config{})
	a.createPod(newPod("bad", func(pod *corev1.Pod) { pod.Labels = map[string]string{"status": "refused"} }))
	a.eventually(func() bool {
		some := false
		refused.Range(func(any, any) bool { some = true; return false })
		return some
	}, func() string { return "no status of the Pod was sent" })
	for n := range 20 {
		name := fmt.Sprintf("good-%d", n)
		a.createPod(newPod(name))
		a.awaitReady(name)
	}
	a.change("bad", func(pod *corev1.Pod) { pod.Labels = nil })
	a.awaitReady("bad")
}

// A pod that came just before its namespace went is refused a node, which is nobody's
// fault: nothing is said, and it is not tried until the pod changes.
func TestNamespaceBeingDeleted(t *testing.T) {
	rulebook.Covers(t, "C20")
	a := newAPI(t)
	var tries atomic.Int32
	a.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" || action.GetNamespace() != "going" {
			return false, nil, nil
		}
		tries.Add(1)
		err := apierrors.NewForbidden(podsResource.GroupResource(), "p", errors.New("it is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return true, nil, err
	})
	log := &logs.Buffer{}
	a.started(Config{Logger: slog.New(slog.NewTextHandler(log, nil)), Workers: 1})
	a.createPod(newPod("late", func(pod *corev1.Pod) { pod.Namespace = "going" }))
	a.eventually(func() bool { return tries.Load() > 0 }, func() string { return "it was not tried" })
	for n := range 20 { // by then it would have been tried again
		name := fmt.Sprintf("other-%d", n)
		a.createPod(newPod(name))
		a.awaitReady(name)
	}
	if n := tries.Load(); n != 1 || log.String() != "" {
		t.Errorf("%d tries, logged %q", n, log)
	}
}

func TestHostNetwork(t *testing.T) {
	a := newAPI(t)
	a.started(Config{})
	a.createPod(newPod("web", func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }))
	if pod := a.awaitReady("web"); pod.Status.PodIP != "10.244.255.254" || pod.Status.HostIP != pod.Status.PodIP {
		t.Errorf("status = %+v", pod.Status)
	}
}

func TestReadinessGates(t *testing.T) {
	a := newAPI(t)
	a.started(Config{})
	a.createPod(newPod("web", func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	}))
	a.await("web", "held back", func(pod *corev1.Pod) bool {
		return condition(pod, corev1.ContainersReady).Status == "True" && condition(pod, corev1.PodReady).Reason == "ReadinessGatesNotReady"
	})
	a.change("web", func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/lb", Status: "True"})
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "lb", Subresource: "status", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"example.com/lb\"}":{".":{}}}}}`),
		}}
	})
	a.awaitReady("web")
}

func TestDeletion(t *testing.T) {
	a := newAPI(t)
	a.started(Config{})
	pods := a.client.CoreV1().Pods("ns")
	a.createPod(newPod("plain"))
	a.createPod(newPod("held", ofJob, annotated(RunForAnnotation, "1h"), func(pod *corev1.Pod) { pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"} }))
	for _, name := range []string{"plain", "held"} {
		a.awaitReady(name)
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	a.awaitGone("plain")
	held := a.await("held", "confirmed", func(pod *corev1.Pod) bool {
		return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	})
	if held.Status.Phase != corev1.PodFailed || held.Status.ContainerStatuses[0].State.Terminated.ExitCode != 143 {
		t.Errorf("status of a pod that a finalizer holds = %+v", held.Status)
	}
	a.settled()
	if writes := a.settled(); len(writes) > 0 {
		t.Errorf("a confirmed end was written again: %q", writes)
	}
}

func TestRestart(t *testing.T) {
	a, dir := newAPI(t), t.TempDir()
	config := Config{DataDir: dir, Nodes: []Node{{Name: "a", Zone: "east"}, {Name: "b"}}}
	stop := a.started(config)
	for _, name := range []string{"one", "two", "three"} {
		a.createPod(newPod(name))
		a.awaitReady(name)
	}
	before := a.awaitReady("three")
	if err := a.client.CoreV1().Pods("ns").Delete(t.Context(), "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.awaitGone("two")
	stop()
	a.take()

	stop = a.started(config)
	if writes := a.settled(); len(writes) > 0 {
		t.Errorf("a restart wrote: %q", writes)
	}
	if diff := cmp.Diff(before, a.awaitReady("three")); diff != "" {
		t.Errorf("pod over a restart (-before +after):\n%s", diff)
	}
	a.createPod(newPod("four"))
	if pod := a.awaitReady("four"); pod.Status.PodIP != "10.244.0.5" {
		t.Errorf("new pod has %s, want the address behind the last one given", pod.Status.PodIP)
	}
	stop()

	// Node b is configured no more; a moves.
	config.Nodes = []Node{{Name: "a", Zone: "west"}}
	a.started(config)
	a.eventually(func() bool {
		_, err := a.client.CoreV1().Nodes().Get(t.Context(), "b", metav1.GetOptions{})
		node, errA := a.client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{})
		return err != nil && errA == nil && node.Labels[corev1.LabelTopologyZone] == "west"
	}, func() string { return "nodes did not follow the configuration" })
}

func TestConfig(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no range", Config{}, "0 pod ranges: want one, or one of each family"},
		{"one family twice", Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/8"), prefix("11.0.0.0/8")}}, "pod ranges 10.0.0.0/8 and 11.0.0.0/8 are of one family"},
		{"tiny range", Config{PodCIDRs: []netip.Prefix{prefix("10.0.0.0/30")}}, "pod range 10.0.0.0/30 is too small: it needs at least 3 host bits"},
		{"loopback range", Config{PodCIDRs: []netip.Prefix{prefix("127.0.0.0/8")}}, "pod range 127.0.0.0/8: the API server refuses such addresses in endpoints"},
		{"node twice", Config{PodCIDRs: dualStack, Nodes: []Node{{Name: "a"}, {Name: "a"}}}, `node "a" is configured twice`},
		{"node name", Config{PodCIDRs: dualStack, Nodes: []Node{{Name: "A"}}}, `node name "A": a lowercase RFC 1123`},
		{"zone", Config{PodCIDRs: dualStack, Nodes: []Node{{Name: "a", Zone: "a b"}}}, `zone "a b" of node a: a valid label`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.config.Client = newAPI(t).client
			_, err := New(test.config)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("New() = %v, want %s", err, test.want)
			}
		})
	}
}

func TestManyPods(t *testing.T) {
	const count = 1000
	a := newAPI(t)
	a.started(Config{PodCIDRs: dualStack})
	begin := time.Now()
	owners := map[string]string{}
	const together = 25 // the fake clientset panics when a watch has 100 changes unread
	for first := 0; first < count; first += together {
		for i := first; i < first+together; i++ {
			a.createPod(newPod(fmt.Sprintf("web-%d", i)))
		}
		for i := first; i < first+together; i++ {
			pod := a.awaitReady(fmt.Sprintf("web-%d", i))
			if other, taken := owners[pod.Status.PodIP]; taken {
				t.Errorf("pods %s and %s both have %s", other, pod.Name, pod.Status.PodIP)
			}
			owners[pod.Status.PodIP] = pod.Name
		}
	}
	t.Logf("%d pods ready in %s", count, time.Since(begin))
	if writes := a.settled(); len(writes) != 3*count+3 {
		t.Errorf("%d writes, want create, bind and status of each pod and three for the node", len(writes))
	}
}
