package inbound

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// workload is what policy depends on of a meshed Pod or an ExternalWorkload
// (policy-inbound 4.1, 4.2). Immutable.
type workload struct {
	metav1.Object
	workloadSpec
}

type workloadSpec struct {
	external bool
	labels   map[string]string
	// defaultPolicy is for ports without a Server; "" means the configured one.
	defaultPolicy policyName
	opaque        linkerd.PortSet
	// requireIdentity are the ports whose default policy requires an identity.
	requireIdentity linkerd.PortSet
	// named are the ports behind each name, ascending.
	named map[string][]uint16
	// probes are the paths of HTTP probes by port, in probeKey's form.
	probes map[uint16]string
}

// judged is a workload in the making, with what is wrong with its annotations
// and probes so far (B29).
type judged struct {
	workloadSpec
	found []problems.Problem
}

// pod derives the workload of a Pod, nil for one outside the mesh. What of
// a Pod changes often, its status, does not make a new workload.
func (d *deriver) pod(pod *corev1.Pod, previous *workload) (*workload, []problems.Problem) {
	if _, meshed := pod.Labels[linkerd.ControlPlaneNSLabel]; !meshed {
		return nil, nil
	}
	spec := judge(pod)
	spec.named = namedPorts(pod)
	spec.probes = spec.podProbes(pod)
	return spec.keepEqual(pod, previous)
}

func (d *deriver) externalWorkload(ew *workloadv1beta1.ExternalWorkload, previous *workload) (*workload, []problems.Problem) {
	// What is not there with Linkerd's controller: it asks for addresses, which the schema does not, and what was written
	// as v1alpha1 has its identity under another name.
	if ew.Spec.MeshTLS == (workloadv1beta1.MeshTLS{}) {
		return unusable(ew, errors.New("spec.meshTLS is missing; v1alpha1 calls it meshTls, which nothing converts"), previous)
	}
	if slices.ContainsFunc(ew.Spec.WorkloadIPs, func(address workloadv1beta1.WorkloadIP) bool { return address.IP == "" }) {
		return unusable(ew, errors.New("spec.workloadIPs: ip is missing"), previous)
	}
	spec := judge(ew)
	spec.external = true
	for _, port := range ew.Spec.Ports {
		if port.Name == "" || !isTCP(string(port.Protocol)) || port.Port < 1 || port.Port > 65535 {
			continue
		}
		if spec.named == nil {
			spec.named = map[string][]uint16{}
		}
		spec.named[port.Name] = []uint16{uint16(port.Port)} // one number per name, the last
	}
	return spec.keepEqual(ew, previous)
}

// keepEqual is the workload, which is the one before if they are equal.
func (j *judged) keepEqual(source metav1.Object, previous *workload) (*workload, []problems.Problem) {
	if previous != nil && previous.GetUID() == source.GetUID() && reflect.DeepEqual(previous.workloadSpec, j.workloadSpec) {
		return previous, j.found
	}
	return &workload{Object: source, workloadSpec: j.workloadSpec}, j.found
}

// judge reads labels and annotations. An annotation with a bad value counts as
// absent.
func judge(obj metav1.Object) judged {
	annotations := obj.GetAnnotations()
	spec := judged{workloadSpec: workloadSpec{labels: obj.GetLabels()}}
	if text, ok := annotations[linkerd.DefaultInboundPolicyAnnotation]; ok {
		var err error
		spec.defaultPolicy, err = parsePolicyName(text)
		spec.ignore(problems.Annotation(linkerd.DefaultInboundPolicyAnnotation), err)
	}
	spec.opaque = spec.ports(annotations, linkerd.OpaquePortsAnnotation)
	spec.requireIdentity = spec.ports(annotations, linkerd.RequireIdentityAnnotation)
	return spec
}

func (j *judged) ports(annotations map[string]string, name string) linkerd.PortSet {
	ports, err := linkerd.ParsePolicyPorts(annotations[name])
	j.ignore(problems.Annotation(name), err)
	return ports
}

// ignore notes that a field is of no use, if err is not nil.
func (j *judged) ignore(at *field.Path, err error) {
	if err != nil {
		j.found = append(j.found, problems.Ignored(at, err, "it is as if there were none"))
	}
}

func isTCP(protocol string) bool { return protocol == "" || strings.EqualFold(protocol, "TCP") }

// containers are those of the spec and then the init containers, among which
// are sidecars (P93).
func containers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
}

func namedPorts(pod *corev1.Pod) map[string][]uint16 {
	var named map[string][]uint16
	for _, container := range containers(pod) {
		for _, port := range container.Ports {
			if port.Name == "" || !isTCP(string(port.Protocol)) || port.ContainerPort < 1 || port.ContainerPort > 65535 {
				continue
			}
			if named == nil {
				named = map[string][]uint16{}
			}
			number := uint16(port.ContainerPort)
			if i, found := slices.BinarySearch(named[port.Name], number); !found {
				named[port.Name] = slices.Insert(named[port.Name], i, number)
			}
		}
	}
	return named
}

// podProbes are the paths that kubelets ask for, by port.
func (j *judged) podProbes(pod *corev1.Pod) map[uint16]string {
	paths := map[uint16]map[string]bool{}
	for _, container := range containers(pod) {
		for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe, container.StartupProbe} {
			if probe == nil || probe.HTTPGet == nil {
				continue
			}
			port, ok := probePort(container, probe.HTTPGet.Port)
			if !ok {
				continue
			}
			path, err := probePath(probe.HTTPGet.Path)
			if err != nil {
				j.ignore(field.NewPath("spec", "containers").Key(container.Name), fmt.Errorf("probe: %w", err))
				continue
			}
			if paths[port] == nil {
				paths[port] = map[string]bool{}
			}
			paths[port][path] = true
		}
	}
	if len(paths) == 0 {
		return nil
	}
	probes := map[uint16]string{}
	for port, set := range paths {
		probes[port] = probeKey(slices.Sorted(maps.Keys(set)))
	}
	return probes
}

// probePort resolves a probe's port among the ports of its own container.
func probePort(container corev1.Container, port intstr.IntOrString) (uint16, bool) {
	if port.Type == intstr.Int {
		return uint16(port.IntVal), port.IntVal >= 1 && port.IntVal <= 65535
	}
	for _, candidate := range container.Ports {
		if strings.EqualFold(candidate.Name, port.StrVal) && isTCP(string(candidate.Protocol)) {
			return uint16(candidate.ContainerPort), candidate.ContainerPort >= 1 && candidate.ContainerPort <= 65535
		}
	}
	return 0, false
}
