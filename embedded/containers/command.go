package containers

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/shlex"

	"github.com/linkerd-lite/linkerd-lite/embedded/images"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// RunAnnotation and the name of a container say what that container runs, as one
// would write it for a shell, but that no shell reads it.
const RunAnnotation = "lite.linkerd.io/run."

// AwaitAttachAnnotation on a pod has its containers with standard input start when
// somebody is attached to them, so that nothing of their output is missed.
const AwaitAttachAnnotation = "lite.linkerd.io/await-attach"

// command is what a container runs.
type command struct {
	// args are the program and its arguments; with an image they are known when that is there.
	args []string
	// image has the program's files; "" are this machine's.
	image string
	// proxy says that it is the pod's proxy.
	proxy bool
}

// Programs say what containers may run.
type Programs struct {
	// Proxy is the command of a proxy; empty: pods are not meshed.
	Proxy []string
	// File is what containers run whose pods have no annotation.
	File RunFile
	// ProxyFromImage runs the image of a proxy container instead of Proxy, if there is one.
	ProxyFromImage bool
	// Images has images; nil: there are none.
	Images *images.Store
	// Host runs a container's own command if this machine has such a program.
	Host bool
	// Dir is where relative paths begin: the directory that the user is in.
	Dir string
}

// Runs reports whether a container of the pod has something to run, besides its
// proxy. An error of type Unable says why such a pod stands in all the same; others are about
// an annotation.
func (p Programs) Runs(pod *corev1.Pod) (bool, error) {
	runs, err := p.anyRuns(pod)
	if err != nil || !runs {
		return false, err
	}
	if what := unable(pod); what != "" {
		return false, &kubelet.UnableError{Reason: "pods that run here cannot be " + what + ": this one stands in for one that is"}
	}
	return true, nil
}

// unable is what an ordinary user cannot give a pod, or empty.
func unable(pod *corev1.Pod) string {
	switch spec := pod.Spec; {
	case spec.HostNetwork:
		return "in the network of the host"
	case spec.HostPID, spec.HostIPC:
		return "among the processes of the host"
	case slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	}):
		return "privileged"
	}
	return ""
}

func (p Programs) anyRuns(pod *corev1.Pod) (bool, error) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range list {
			command, err := p.command(pod, container)
			if err != nil {
				return false, err
			}
			if command != nil && !command.proxy {
				return true, nil
			}
		}
	}
	return false, nil
}

// command is what a container of a pod runs; nil: nothing.
func (p Programs) command(pod *corev1.Pod, container corev1.Container) (*command, error) {
	if container.Name == linkerd.ProxyContainerName {
		if p.ProxyFromImage && p.hasImage(container) {
			return &command{image: container.Image, proxy: true}, nil
		}
		if len(p.Proxy) == 0 {
			return nil, nil
		}
		return &command{args: p.Proxy, proxy: true}, nil
	}
	said, where := pod.Annotations[RunAnnotation+container.Name], "annotation "+RunAnnotation+container.Name
	if said == "" {
		said, where = p.File.command(pod, container.Name), "--run-file"
	}
	if said != "" {
		args, err := shlex.Split(said)
		if err == nil && len(args) == 0 {
			err = errors.New("no program is named")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		return &command{args: args}, nil
	}
	if p.Host && len(container.Command) > 0 {
		if _, err := exec.LookPath(container.Command[0]); err == nil {
			return &command{args: slices.Concat(container.Command, container.Args)}, nil
		}
	}
	if !plumbing(container) && p.hasImage(container) {
		return &command{image: container.Image}, nil
	}
	return nil, nil
}

func (p Programs) hasImage(container corev1.Container) bool {
	return p.Images != nil && p.Images.Has(container.Image)
}

// meshed reports whether the pod has a proxy that runs.
func (p Programs) meshed(pod *corev1.Pod) bool {
	proxy := proxyOf(pod)
	return proxy != nil && (len(p.Proxy) > 0 || p.ProxyFromImage && p.hasImage(*proxy))
}

// proxyOf is the pod's proxy container, or nil.
func proxyOf(pod *corev1.Pod) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == linkerd.ProxyContainerName }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// isSidecar reports whether an init container goes on running beside the others.
func isSidecar(container corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// plumbing reports whether an init container only leads connections to the
// proxy, or checks that: the sandbox does so.
func plumbing(container corev1.Container) bool {
	return strings.HasPrefix(container.Name, "linkerd-init") || container.Name == "linkerd-network-validator"
}
