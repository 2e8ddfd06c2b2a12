package kubelet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Annotations on pods; the package comment says what they mean.
const (
	StatusAnnotation  = "lite.linkerd.io/status"
	ReadyAnnotation   = "lite.linkerd.io/ready"
	ProcessAnnotation = "lite.linkerd.io/process"
	RunForAnnotation  = "lite.linkerd.io/run-for"
)

// StatusManual is the value of StatusAnnotation that keeps the kubelet away
// from a pod's status.
const StatusManual = "manual"

const (
	// defaultRunFor is how long a pod that finishes runs unless it is annotated.
	defaultRunFor = time.Second
	// helmHookAnnotation is on pods whose end Helm waits for, such as tests.
	helmHookAnnotation = "helm.sh/hook"
)

// problem is why a pod cannot be what its object asks for. It becomes a
// condition, and an event the first time.
type problem struct{ reason, message string }

// wishes is what a pod's annotations ask for.
type wishes struct {
	ready bool
	// process is the address of the process that this pod stands for, or zero.
	process netip.Addr
	// runFor is how long the pod runs before it succeeds; negative: for ever.
	runFor time.Duration
	// fatal keeps the pod from starting; the notes do not.
	fatal *problem
	notes []problem
}

// readWishes never fails: what cannot be understood becomes a problem.
func readWishes(pod *corev1.Pod) wishes {
	w := wishes{ready: true, runFor: -1}
	if value, ok := pod.Annotations[ReadyAnnotation]; ok {
		ready, err := strconv.ParseBool(value)
		if err != nil {
			w.note("InvalidReady", "annotation %s: %q is neither true nor false, taken as true", ReadyAnnotation, value)
		} else {
			w.ready = ready
		}
	}
	if value, ok := pod.Annotations[ProcessAnnotation]; ok {
		addr, err := parseProcess(pod, value)
		if err != nil {
			w.fatal = &problem{"InvalidProcessAddress", fmt.Sprintf("annotation %s: %v", ProcessAnnotation, err)}
		}
		w.process = addr
	}
	w.readRunFor(pod)
	return w
}

func (w *wishes) readRunFor(pod *corev1.Pod) {
	if finishes(pod) {
		w.runFor = defaultRunFor
	}
	value, ok := pod.Annotations[RunForAnnotation]
	if !ok {
		return
	}
	duration, err := time.ParseDuration(value)
	switch {
	case err != nil || duration < 0:
		w.note("InvalidRunFor", "annotation %s: %q is not a duration such as 5s", RunForAnnotation, value)
	case pod.Spec.RestartPolicy != corev1.RestartPolicyNever && pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure:
		w.note("InvalidRunFor", "annotation %s has no effect on a pod with restartPolicy Always, which never ends", RunForAnnotation)
	default:
		w.runFor = duration
	}
}

// finishes tells whether a pod would end by itself, had it a process (C13). Its
// restartPolicy has to allow that; then the pods of Jobs and those that Helm
// waits for do, and others unless they look like servers: a container has a port
// or a probe. The proxy's do not count.
func finishes(pod *corev1.Pod) bool {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever && pod.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
		return true
	}
	if _, hook := pod.Annotations[helmHookAnnotation]; hook {
		return true
	}
	return !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name != linkerd.ProxyContainerName &&
			(len(c.Ports) > 0 || c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil)
	})
}

func (w *wishes) note(reason, format string, args ...any) {
	w.notes = append(w.notes, problem{reason, fmt.Sprintf(format, args...)})
}

// parseProcess checks IP:PORT by the rules that the API server has for
// addresses of endpoints, before the EndpointSlice controller fails on them
// out of sight.
func parseProcess(pod *corev1.Pod, value string) (netip.Addr, error) {
	address, err := netip.ParseAddrPort(value)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%q is not IP:PORT", value)
	}
	ip := address.Addr().Unmap()
	switch {
	case ip.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has a zone, which the API server refuses in an endpoint address", ip)
	case ip.IsLoopback():
		return netip.Addr{}, fmt.Errorf("%s is a loopback address, which the API server refuses in an endpoint: use another address of this host", ip)
	case ip.IsLinkLocalUnicast():
		return netip.Addr{}, fmt.Errorf("%s is a link-local address, which the API server refuses in an endpoint: use another address of this host", ip)
	case ip.IsUnspecified(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.Addr{}, fmt.Errorf("%s is not the address of one host", ip)
	}
	var declared []string
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, container := range containers {
			for _, port := range container.Ports {
				if port.ContainerPort == int32(address.Port()) {
					return ip, nil
				}
				declared = append(declared, strconv.Itoa(int(port.ContainerPort)))
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("port %d is not a containerPort of this pod (declared: %v), so no Service can lead to it", address.Port(), declared)
}
