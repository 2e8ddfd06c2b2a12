package containers

import (
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// printer tells the user what runs and what does not, a line for each event.
type printer struct{ out io.Writer }

// ready tells that a pod is ready for the first time, after so long.
func (p printer) ready(w *worker, after time.Duration) {
	if attended(w) {
		return
	}
	var what []string
	for _, c := range w.main {
		if c.command != nil && !c.command.proxy {
			what = append(what, c.what())
		}
	}
	proxy := "no proxy"
	if w.redirect != nil {
		proxy = "proxy " + w.runner.config.Programs.proxyName()
	}
	p.line("pod %s  %s  %s  %s  ready after %.1f s", w.name(), join(w.addresses, netip.Addr.String), strings.Join(what, ", "), proxy, after.Seconds())
}

// ended tells that a container has ended as it should not have.
func (p printer) ended(c *container, exit sandbox.Exit) {
	if attended(c.worker) {
		return
	}
	how := fmt.Sprintf("ended with exit code %d", exit.Code)
	if exit.Signal != 0 {
		how = fmt.Sprintf("was ended by signal %d", exit.Signal)
	}
	p.line("pod %s: container %s %s; see linkerd-lite kubectl -n %s logs %s -c %s", c.worker.name(), c.spec.Name, how, c.worker.pod.Namespace, c.worker.pod.Name, c.spec.Name)
}

// problem tells why a pod does not go on.
func (p printer) problem(w *worker, reason, message string) {
	p.line("pod %s: %s: %s", w.name(), reason, message)
}

// attended reports whether somebody looks at the pod anyway.
func attended(w *worker) bool { return w.pod.Annotations[AwaitAttachAnnotation] == "true" }

func (p printer) line(format string, args ...any) {
	fmt.Fprintln(p.out, "  "+printable.Text(fmt.Sprintf(format, args...)))
}

func (w *worker) name() string { return w.pod.Namespace + "/" + w.pod.Name }

// what is what a container runs, in few words.
func (c *container) what() string {
	const longest = 60
	text := "image " + c.command.image
	if c.command.image == "" {
		text = strings.Join(c.command.args, " ")
	}
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}

// proxyName is the proxy in few words.
func (p Programs) proxyName() string {
	switch {
	case len(p.Proxy) == 0:
		return "of its image"
	case len(p.Proxy) > 1:
		return "builtin, a stand-in"
	}
	return filepath.Base(p.Proxy[0])
}
