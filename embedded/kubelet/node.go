package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// managedBy marks nodes that were registered by configuration, so that one
// that is configured no more is removed at the next start.
const managedBy = "app.kubernetes.io/managed-by"

func checkNode(node Node) error {
	if problems := validation.IsDNS1123Subdomain(node.Name); len(problems) > 0 {
		return fmt.Errorf("node name %q: %s", node.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsValidLabelValue(node.Zone); len(problems) > 0 {
		return fmt.Errorf("zone %q of node %s: %s", node.Zone, node.Name, strings.Join(problems, "; "))
	}
	return nil
}

func (k *Kubelet) configured(name string) (Node, bool) {
	i := slices.IndexFunc(k.config.Nodes, func(n Node) bool { return n.Name == name })
	if i < 0 {
		return Node{}, false
	}
	return k.config.Nodes[i], true
}

// register brings the configured nodes into the API, and removes those that a
// former run registered and this one does not.
func (k *Kubelet) register(ctx context.Context) error {
	nodes, err := k.nodes.List(labels.SelectorFromSet(labels.Set{managedBy: FieldManager}))
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if _, ok := k.configured(node.Name); ok {
			continue
		}
		err := k.config.Own.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
		if ignoreNotFound(err) != nil {
			return fmt.Errorf("remove node %s, which is configured no more: %w", node.Name, err)
		}
		k.log.Info("node removed, as it is configured no more", slog.String("node", node.Name))
	}
	for _, node := range k.config.Nodes {
		if err := k.registerNode(ctx, node); err != nil {
			k.judgeNode(node.Name, err)
			k.queue.AddRateLimited(nodeItem(node.Name))
			return fmt.Errorf("register node %s: %w", node.Name, err)
		}
	}
	// Pods are placed by what the informer knows, so it has to know first.
	return wait.PollUntilContextCancel(ctx, time.Millisecond, true, func(context.Context) (bool, error) {
		for _, node := range k.config.Nodes {
			if stored, err := k.nodes.Get(node.Name); err != nil || !isForeign(stored) && !takesPods(stored) {
				return false, nil
			}
		}
		return true, nil
	})
}

func (k *Kubelet) registerNode(ctx context.Context, node Node) error {
	stored, err := k.nodes.Get(node.Name)
	if apierrors.IsNotFound(err) {
		stored, err = k.create(ctx, node)
		if apierrors.IsAlreadyExists(err) {
			// A worker was faster.
			stored, err = k.config.Own.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return err
	}
	for err = k.tend(ctx, stored); apierrors.IsConflict(err) && ctx.Err() == nil; {
		// Only here: later, the other writer's change comes through the queue.
		stored, err = k.config.Own.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil {
			_, _ = trim(stored)
			err = k.tend(ctx, stored)
		}
	}
	return err
}

// source is who says what is wrong with nodes.
const source = "kubelet"

// judgeNode says what keeps a configured node from taking pods.
func (k *Kubelet) judgeNode(name string, err error) {
	if _, ok := k.configured(name); !ok {
		return
	}
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		k.config.Problems.Say(source, "node/"+name)
		return
	}
	k.config.Problems.Say(source, "node/"+name, problems.Problem{
		Object: problems.ObjectOf(corev1.SchemeGroupVersion.WithKind("Node"), "", name), Severity: problems.Error,
		Message: fmt.Sprintf("cannot be registered: %v", err), Instead: "Pods that need it wait",
	})
}

// takesPods reports whether all is done that makes a registered node ready.
func takesPods(node *corev1.Node) bool {
	return nodeReady(node) && len(nodeAddresses(node)) > 0 && !slices.ContainsFunc(node.Spec.Taints, notReadyTaint)
}

func notReadyTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

// create makes a node with its status, as a kubelet that registers does.
func (k *Kubelet) create(ctx context.Context, config Node) (*corev1.Node, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: config.Name, Labels: map[string]string{
		managedBy:              FieldManager,
		corev1.LabelHostname:   config.Name,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
	}}}
	if config.Zone != "" {
		node.Labels[corev1.LabelTopologyZone] = config.Zone
	}
	created, err := k.config.Own.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, err
	}
	created.ManagedFields = nil // nobody else had a chance to write
	return created, nil
}

func (k *Kubelet) nodeChanged(old, node *corev1.Node) {
	if addrs := nodeAddresses(node); len(addrs) > 0 {
		k.addresses.hold(node.UID, addrs)
	}
	k.queue.Add(nodeItem(node.Name))
	if old == nil || !slices.Equal(nodeAddresses(old), nodeAddresses(node)) {
		k.enqueuePodsOf(node.Name)
	}
	if old == nil || old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!apiequality.Semantic.DeepEqual(old.Labels, node.Labels) || !apiequality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		k.enqueuePodsOf("")
	}
}

func (k *Kubelet) nodeGone(node *corev1.Node) {
	k.addresses.release(node.UID)
	k.queue.Add(nodeItem(node.Name)) // registered again if it is configured
	k.enqueuePodsOf(node.Name)
	k.enqueuePodsOf("") // those that no node fits name the number of nodes
}

// enqueuePodsOf puts the pods of a node into the queue; "" means those without one.
func (k *Kubelet) enqueuePodsOf(node string) {
	pods, err := k.podIndex.ByIndex(byNode, node)
	if err != nil {
		k.log.Error("pods not found by node", "error", err) // only if the index is missing
		return
	}
	for _, pod := range pods {
		k.queue.Add(podItem(pod.(*corev1.Pod)))
	}
}

func nodeAddresses(node *corev1.Node) []netip.Addr {
	var addrs []netip.Addr
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		if addr, err := netip.ParseAddr(address.Address); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func (k *Kubelet) syncNode(ctx context.Context, name string) error {
	node, err := k.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		config, ok := k.configured(name)
		if !ok {
			return nil
		}
		_, err = k.create(ctx, config)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return wrapIf(err, "register node")
	}
	if err != nil || node.DeletionTimestamp != nil {
		return err
	}
	return k.tend(ctx, node)
}

// tend makes a node what it ought to be: ready, with addresses, and open to pods.
func (k *Kubelet) tend(ctx context.Context, node *corev1.Node) error {
	nodes := k.config.Own.CoreV1().Nodes()
	if !isForeign(node) {
		status, err := k.nodeStatus(node)
		if err != nil {
			return err
		}
		if !apiequality.Semantic.DeepEqual(node.Status, status) {
			update := node.DeepCopy()
			update.ManagedFields = nil
			update.Status = status
			stored, err := nodes.UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: FieldManager})
			if err != nil {
				return fmt.Errorf("write status of node: %w", err)
			}
			stored.ManagedFields = nil
			node = stored
		}
	}
	update := node.DeepCopy()
	update.ManagedFields = nil
	k.label(update)
	if nodeReady(node) {
		update.Spec.Taints = slices.DeleteFunc(update.Spec.Taints, notReadyTaint)
	}
	if apiequality.Semantic.DeepEqual(node.Labels, update.Labels) && apiequality.Semantic.DeepEqual(node.Spec.Taints, update.Spec.Taints) {
		return nil
	}
	_, err := nodes.Update(ctx, update, metav1.UpdateOptions{FieldManager: FieldManager})
	return wrapIf(err, "open node to pods")
}

// label moves a node that we registered to the zone that is configured now.
func (k *Kubelet) label(node *corev1.Node) {
	config, ok := k.configured(node.Name)
	if !ok || node.Labels[managedBy] != FieldManager {
		return
	}
	if config.Zone == "" {
		delete(node.Labels, corev1.LabelTopologyZone)
	} else {
		node.Labels[corev1.LabelTopologyZone] = config.Zone
	}
}

func nodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// nodeStatus is the status of a ready node without limits worth mentioning.
// There is no heartbeat in it, so it is written once.
func (k *Kubelet) nodeStatus(node *corev1.Node) (corev1.NodeStatus, error) {
	status := *node.Status.DeepCopy()
	addrs := nodeAddresses(node)
	if len(addrs) == 0 {
		given, err := k.addresses.allocateNode(node.UID)
		if err != nil {
			return status, err
		}
		status.Addresses = nil
		for _, addr := range given {
			status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: addr.String()})
		}
		status.Addresses = append(status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: node.Name})
	}
	if status.Capacity == nil {
		status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("1k"),
			corev1.ResourceMemory:           resource.MustParse("1Ti"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             resource.MustParse("100k"),
		}
		status.Allocatable = status.Capacity.DeepCopy()
	}
	status.DaemonEndpoints.KubeletEndpoint.Port = k.config.Port
	status.NodeInfo.KubeletVersion = k.version
	status.NodeInfo.OperatingSystem = "linux"
	status.NodeInfo.Architecture = runtime.GOARCH
	status.NodeInfo.ContainerRuntimeVersion = "lite://"
	status.NodeInfo.OSImage = "linkerd-lite (no containers run here)"
	now := k.seconds()
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "memory is not counted"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "disks are not looked at"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "processes are not counted"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "pods get addresses and a status, and run nowhere"},
	} {
		c.LastHeartbeatTime, c.LastTransitionTime = now, now
		i := slices.IndexFunc(status.Conditions, func(old corev1.NodeCondition) bool { return old.Type == c.Type })
		if i < 0 {
			status.Conditions = append(status.Conditions, c)
			continue
		}
		old := &status.Conditions[i]
		if old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
			*old = c
		}
	}
	return status, nil
}

func wrapIf(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
