package embedded

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet/streaming"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// backend is what kubectl reaches in pods: those that run, and of those of the
// control plane, in whose place this process is, the ports.
type backend struct {
	*containers.Runner
	controlPlaneNamespace string
	// knows reports whether there is a pod.
	knows     func(namespace, pod string) bool
	listeners listeners
	logs      *partLogs
}

var _ streaming.Backend = (*backend)(nil)

// controlPlanePods are the beginnings of the names of its pods.
var controlPlanePods = []string{"linkerd-destination-", "linkerd-identity-", "linkerd-proxy-injector-"}

func (b *backend) isControlPlane(namespace, pod string) bool {
	if namespace != b.controlPlaneNamespace {
		return false
	}
	for _, prefix := range controlPlanePods {
		if strings.HasPrefix(pod, prefix) {
			return true
		}
	}
	return false
}

// Serves is part of streaming.Backend.
func (b *backend) Serves(subresource, namespace, pod, container string) error {
	switch {
	case b.Has(namespace, pod), subresource == "log" && b.HasLog(namespace, pod, container):
		return nil
	case b.isControlPlane(namespace, pod):
		if subresource == "portforward" || subresource == "log" {
			return nil
		}
		return notImplemented("pod %s stands for a part of linkerd-lite itself: it has a log and ports, and no processes", pod)
	}
	if !b.knows(namespace, pod) {
		return nil // who is asked next says that there is no such pod
	}
	return notImplemented("nothing runs in pod %s: say what its containers run by annotations %sCONTAINER, or by their images", pod, containers.RunAnnotation)
}

func notImplemented(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: fmt.Sprintf(format, args...),
	}}
}

// Log is part of streaming.Backend. That of control-plane pods is what this process says
// of their parts.
func (b *backend) Log(namespace, pod, container string, previous bool) (string, <-chan struct{}, error) {
	if b.Has(namespace, pod) || !b.isControlPlane(namespace, pod) {
		return b.Runner.Log(namespace, pod, container, previous)
	}
	path, err := b.logs.path(container)
	if err != nil || previous {
		return "", nil, apierrors.NewBadRequest(fmt.Sprintf("container %s of pod %s has no such log: it stands for a part of linkerd-lite itself", container, pod))
	}
	return path, nil, nil // there may always be more
}

// Exec is part of streaming.Backend.
func (b *backend) Exec(ctx context.Context, namespace, pod, container string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return b.Runner.Exec(ctx, namespace, pod, container, command, containers.Streams{In: in, Out: writer(out), ErrOut: writer(errOut), Terminal: tty, Resize: resize})
}

// Attach is part of streaming.Backend.
func (b *backend) Attach(ctx context.Context, namespace, pod, container string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return b.Runner.Attach(ctx, namespace, pod, container, containers.Streams{In: in, Out: writer(out), ErrOut: writer(errOut), Terminal: tty, Resize: resize})
}

// writer keeps what was not asked for nil.
func writer(w io.WriteCloser) io.Writer {
	if w == nil {
		return nil
	}
	return w
}

// Dial is part of streaming.Backend. Ports of the control plane are those of its
// containers in the chart.
func (b *backend) Dial(ctx context.Context, namespace, pod string, port uint16) (net.Conn, error) {
	if b.Has(namespace, pod) || !b.isControlPlane(namespace, pod) {
		return b.Runner.Dial(ctx, namespace, pod, port)
	}
	name := map[uint16]string{
		linkerd.DestinationPort: "destination", linkerd.PolicyPort: "policy", linkerd.IdentityPort: "identity", linkerd.ProxyInboundPort: "shim-inbound",
		8443: "webhook", 9443: "webhook", 4191: "admin", 9990: "admin", 9995: "admin", 9996: "admin", 9997: "admin",
	}[port]
	l, ok := b.listeners[name]
	if !ok {
		return nil, fmt.Errorf("nothing listens on port %d of pod %s", port, pod)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
}
