package containers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// watch runs the hook after the start and then the probes, until ctx ends. What
// makes the container unhealthy is said to unhealthy.
func (c *container) watch(ctx context.Context, start *started, unhealthy chan<- string) error {
	defer c.hookedOnce.Do(func() { close(c.hooked) })
	if hook := c.spec.Lifecycle; hook != nil && hook.PostStart != nil {
		if err := c.hook(ctx, start, hook.PostStart); err != nil && ctx.Err() == nil {
			c.worker.event(corev1.EventTypeWarning, "FailedPostStartHook", err.Error())
			unhealthy <- "failed its postStart hook"
			return nil
		}
	}
	if c.waits() {
		if err := c.awaitProxy(ctx, start); err != nil {
			if ctx.Err() == nil {
				unhealthy <- err.Error()
			}
			return nil
		}
		c.update(func(s *corev1.ContainerStatus) { *s.Started, s.Ready = true, true })
	}
	c.hookedOnce.Do(func() { close(c.hooked) })
	if probe := c.spec.StartupProbe; probe != nil && !c.waits() {
		if !c.startup(ctx, start, probe, unhealthy) {
			return nil
		}
		c.update(func(s *corev1.ContainerStatus) {
			*s.Started = true
			s.Ready = c.spec.ReadinessProbe == nil
		})
	}
	group, ctx := lifecycle.NewGroup(ctx)
	if probe := c.spec.ReadinessProbe; probe != nil {
		group.Go("readiness probe", func() error {
			c.repeat(ctx, start, probe, "Readiness", func(good bool) bool {
				c.setReady(good)
				return true
			})
			return nil
		})
	}
	if probe := c.spec.LivenessProbe; probe != nil {
		group.Go("liveness probe", func() error {
			c.repeat(ctx, start, probe, "Liveness", func(good bool) bool {
				if !good {
					unhealthy <- "failed liveness probe"
				}
				return good
			})
			return nil
		})
	}
	return group.Wait()
}

func (c *container) setReady(ready bool) {
	c.mu.Lock()
	same := c.current.Ready == ready || c.current.State.Running == nil
	c.mu.Unlock()
	if !same {
		c.update(func(s *corev1.ContainerStatus) { s.Ready = ready && s.State.Running != nil })
	}
}

func (c *container) startup(ctx context.Context, start *started, probe *corev1.Probe, unhealthy chan<- string) (good bool) {
	c.repeat(ctx, start, probe, "Startup", func(is bool) bool {
		good = is
		if !good {
			unhealthy <- "failed startup probe"
		}
		return false
	})
	return good
}

// repeat probes until ctx ends or judged says that it is enough. It is told of
// success and failure as soon as enough attempts in a row agree.
func (c *container) repeat(ctx context.Context, start *started, probe *corev1.Probe, name string, judged func(good bool) bool) {
	period := time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
	timeout := time.Duration(max(probe.TimeoutSeconds, 1)) * time.Second
	// Readiness of what has just been started is asked for more often, as it comes soon.
	wait, quick := time.Duration(probe.InitialDelaySeconds)*time.Second, 100*time.Millisecond
	successes, failures := int32(0), int32(0)
	for c.worker.sleep(wait, ctx.Done()) {
		probeCtx, cancel := context.WithTimeout(ctx, timeout)
		err := c.attempt(probeCtx, start, probe.ProbeHandler)
		cancel()
		if ctx.Err() != nil {
			return
		}
		wait = period
		if err == nil {
			successes, failures, quick = successes+1, 0, period
			if successes >= max(probe.SuccessThreshold, 1) && !judged(true) {
				return
			}
			continue
		}
		if quick < period && name != "Liveness" {
			wait, quick = quick, 2*quick
			continue // too early to count
		}
		successes, failures = 0, failures+1
		c.worker.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", name, err))
		if failures >= max(probe.FailureThreshold, 1) && !judged(false) {
			return
		}
	}
}

// attempt carries out one probe.
func (c *container) attempt(ctx context.Context, start *started, probe corev1.ProbeHandler) error {
	switch {
	case probe.HTTPGet != nil:
		return c.httpGet(ctx, probe.HTTPGet)
	case probe.TCPSocket != nil:
		port, err := c.port(probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := c.dial(ctx, probe.TCPSocket.Host, port)
		if err != nil {
			return err
		}
		return conn.Close()
	case probe.GRPC != nil:
		return c.grpcHealth(ctx, probe.GRPC)
	case probe.Exec != nil:
		return c.exec(ctx, start, probe.Exec.Command)
	}
	return errors.New("the probe says nothing")
}

// hook carries out what is done after the start or before the end.
func (c *container) hook(ctx context.Context, start *started, hook *corev1.LifecycleHandler) error {
	switch {
	case c.command.proxy && hook.Exec != nil:
		// linkerd-await of the proxy's image: until the proxy is ready.
		return c.awaitProxy(ctx, start)
	case hook.Exec != nil:
		return c.exec(ctx, start, hook.Exec.Command)
	case hook.HTTPGet != nil:
		return c.httpGet(ctx, hook.HTTPGet)
	case hook.Sleep != nil:
		c.worker.sleep(time.Duration(hook.Sleep.Seconds)*time.Second, ctx.Done())
	}
	return nil
}

func (c *container) httpGet(ctx context.Context, get *corev1.HTTPGetAction) error {
	port, err := c.port(get.Port)
	if err != nil {
		return err
	}
	host := get.Host
	if host == "" {
		host = c.worker.addresses[0].String()
	}
	scheme := "http"
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	target, err := url.Parse(get.Path)
	if err != nil {
		return err
	}
	target.Scheme, target.Host = scheme, net.JoinHostPort(host, strconv.Itoa(int(port)))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.37")
	request.Header.Set("Accept", "*/*")
	for _, header := range get.HTTPHeaders {
		if http.CanonicalHeaderKey(header.Name) == "Host" {
			request.Host = header.Value
			continue
		}
		request.Header.Add(header.Name, header.Value)
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx, get.Host, port) },
		// As a kubelet does: a probe asks for life, not for names.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, DisableCompression: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 10<<10)); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d", response.StatusCode)
	}
	return nil
}

func (c *container) grpcHealth(ctx context.Context, action *corev1.GRPCAction) error {
	conn, err := grpc.NewClient("passthrough:///pod", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.dial(ctx, "", uint16(action.Port)) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	service := ""
	if action.Service != nil {
		service = *action.Service
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		return err
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("service unhealthy (responded with %q)", answer.Status)
	}
	return nil
}

// dial connects from the sandbox, as a kubelet does from the node.
func (c *container) dial(ctx context.Context, host string, port uint16) (net.Conn, error) {
	to := c.worker.addresses[0]
	if host != "" {
		var err error
		if to, err = netip.ParseAddr(host); err != nil {
			return nil, fmt.Errorf("host %s of a probe: only addresses are possible", host)
		}
	}
	timeout := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	return c.worker.runner.config.Sandbox.Dial(ctx, sandbox.Place{}, netip.AddrPortFrom(to, port), timeout)
}

// port is a port of the container by its number or name.
func (c *container) port(port intstr.IntOrString) (uint16, error) {
	if port.Type == intstr.Int {
		return uint16(port.IntVal), nil
	}
	for _, declared := range c.spec.Ports {
		if declared.Name == port.StrVal {
			return uint16(declared.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("container %s has no port %s", c.spec.Name, port.StrVal)
}

// exec runs a command in the container; an exit code other than 0 is an error, which
// says what the command wrote.
func (c *container) exec(ctx context.Context, start *started, command []string) error {
	began := c.worker.runner.config.Clock.Now()
	var output head
	streams, err := newPipes(Streams{Out: &output, ErrOut: &output})
	if err != nil {
		return err
	}
	defer streams.close()
	process, err := c.worker.runner.config.Sandbox.Run(ctx, c.beside(start, command), streams.process[0], streams.process[1], streams.process[2])
	streams.given()
	if err != nil {
		return err
	}
	exit := awaitExit(ctx, process)
	streams.drain()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("command timed out: %q timed out after %s", strings.Join(command, " "), c.worker.runner.config.Clock.Since(began).Round(time.Second/10))
	case exit.Code != 0 && output.text() != "":
		return errors.New(output.text())
	case exit.Code != 0:
		return fmt.Errorf("%q ended with exit code %d", command, exit.Code)
	}
	return nil
}

// awaitExit waits for the end of a process, which is killed when ctx ends.
func awaitExit(ctx context.Context, process *sandbox.Running) sandbox.Exit {
	stop := context.AfterFunc(ctx, func() { _ = process.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) }) // it may have ended
	defer stop()
	return process.Wait()
}

// head keeps the first of what is written to it.
type head struct {
	mu   sync.Mutex
	data []byte
}

// longestOutput is how much of a probe's output is told, in bytes.
const longestOutput = 10 << 10

func (h *head) Write(data []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.data = append(h.data, data[:min(len(data), longestOutput-len(h.data))]...)
	return len(data), nil
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(string(h.data), "")
}
