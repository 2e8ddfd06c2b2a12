package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
)

// load counts the pods of each node, those whose binding is under way included.
type load struct {
	mu     sync.Mutex
	nodeOf map[types.UID]string
	pods   map[string]int
}

func newLoad() *load { return &load{nodeOf: map[types.UID]string{}, pods: map[string]int{}} }

// set notes that a pod is on node; "" means on none any more.
func (l *load) set(pod types.UID, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.move(pod, node)
}

func (l *load) move(pod types.UID, node string) {
	if old := l.nodeOf[pod]; old != "" {
		if l.pods[old]--; l.pods[old] == 0 {
			delete(l.pods, old)
		}
	}
	delete(l.nodeOf, pod)
	if node != "" {
		l.nodeOf[pod] = node
		l.pods[node]++
	}
}

// choose puts pod on that one of the nodes which fits and has the fewest pods;
// among equals the first by name. If none fits, the problem says why.
func (l *load) choose(pod *corev1.Pod, nodes []*corev1.Node) (string, *problem) {
	fitting := make([]string, 0, len(nodes))
	misfits := map[string]int{}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for _, node := range nodes {
		if why := misfit(pod, affinity, node); why != "" {
			misfits[why]++
			continue
		}
		fitting = append(fitting, node.Name)
	}
	if len(fitting) == 0 {
		return "", &problem{corev1.PodReasonUnschedulable, explain(len(nodes), misfits)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	chosen := slices.MinFunc(fitting, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.pods[a], l.pods[b]), cmp.Compare(a, b))
	})
	l.move(pod.UID, chosen)
	return chosen, nil
}

// misfit says why pod cannot be on node, or nothing if it can. What the pod
// needs of processor, memory or volumes is never a reason: there are none.
func misfit(pod *corev1.Pod, affinity nodeaffinity.RequiredNodeAffinity, node *corev1.Node) string {
	if node.DeletionTimestamp != nil {
		return "were being deleted"
	}
	matches, err := affinity.Match(node)
	if err != nil {
		return fmt.Sprintf("could not be matched with the pod's node affinity (%v)", err)
	}
	if !matches {
		return "didn't match the pod's nodeSelector or node affinity"
	}
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	taint, found := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, true)
	switch {
	case !found:
		return ""
	case taint.Key == corev1.TaintNodeUnschedulable:
		return "were unschedulable (cordoned)"
	default:
		return fmt.Sprintf("had the untolerated taint {%s}", taint.ToString())
	}
}

// explain speaks as kube-scheduler does, which people and tools know to read.
func explain(nodes int, misfits map[string]int) string {
	if nodes == 0 {
		return "0/0 nodes are available: there is no node."
	}
	reasons := make([]string, 0, len(misfits))
	for why, count := range misfits {
		reasons = append(reasons, fmt.Sprintf("%d node(s) %s", count, why))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(reasons, ", "))
}
