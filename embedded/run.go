package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/dns"
	"github.com/linkerd-lite/linkerd-lite/embedded/images"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet/streaming"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubeproxy"
	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// RunConfig says that pods are to run, and how.
type RunConfig struct {
	// Child is a command whose program calls sandbox.Main.
	Child []string
	// Programs are what containers run.
	Programs containers.Programs
	// Images are places to look for images; Pull allows registries, too.
	Images []string
	Pull   bool
	// HostPaths are the directories of this machine that pods may see.
	HostPaths []string
}

// inside is the part of a cluster that is inside of its sandbox; nil without one.
type inside struct {
	*sandbox.Sandbox
	// hosts are the sandbox's own addresses, one of each family; api and dns are those of Services.
	hosts    []netip.Addr
	api, dns netip.AddrPort
	// listeners are those of the control plane, at each of hosts.
	listeners []listeners
	// kubelet is where the API server finds the kubelet of all nodes, outside.
	kubelet net.Listener
}

// newInside starts a sandbox and listens in it.
func (c *Cluster) newInside(ctx context.Context) (*inside, error) {
	ranges, err := parsePrefixes(c.config.ServiceCIDR)
	if err != nil {
		return nil, err
	}
	pods, services, err := runRanges(c.config.PodCIDRs, ranges, c.config.ControlPlane.EnableIPv6)
	if err != nil {
		return nil, err
	}
	c.config.PodCIDRs = pods
	in := &inside{api: netip.AddrPortFrom(nth(services[0], 1), 443)}
	for _, prefix := range pods {
		in.hosts = append(in.hosts, nth(prefix, 1))
	}
	resolver, err := dns.ClusterIP(services[0].String())
	if err != nil {
		return nil, err
	}
	in.dns = netip.AddrPortFrom(resolver, dns.Port)
	in.Sandbox, err = sandbox.Start(sandbox.Config{Command: c.config.Run.Child, Hosts: in.hosts, Services: services, Stderr: os.Stderr})
	if errors.Is(err, sandbox.ErrNoIPv6) {
		return nil, fmt.Errorf("--enable-ipv6 --run: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--run: %w", err)
	}
	if in.kubelet, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		in.Close()
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	for _, host := range in.hosts {
		at := listeners{}
		in.listeners = append(in.listeners, at)
		for name, port := range map[string]uint16{
			"destination": linkerd.DestinationPort, "policy": linkerd.PolicyPort, "identity": linkerd.IdentityPort, "shim-inbound": linkerd.ProxyInboundPort,
		} {
			l, err := in.Listen(ctx, sandbox.Place{}, netip.AddrPortFrom(host, port))
			if err != nil {
				return nil, errors.Join(err, in.close())
			}
			at[name] = l
		}
	}
	return in, nil
}

func (in *inside) close() error {
	for _, l := range in.listeners {
		l.close()
	}
	in.kubelet.Close()
	return in.Sandbox.Close()
}

// nth is an address of a range.
func nth(prefix netip.Prefix, n int) netip.Addr {
	addr := prefix.Masked().Addr()
	for range n {
		addr = addr.Next()
	}
	return addr
}

func parsePrefixes(list string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}

// runRanges are the ranges of the families that pods have a network of.
func runRanges(pods, services []netip.Prefix, ipv6 bool) (ofPods, ofServices []netip.Prefix, err error) {
	for _, prefix := range pods {
		if ipv6 || prefix.Addr().Is4() {
			ofPods = append(ofPods, prefix)
		}
	}
	for _, prefix := range services {
		if slices.ContainsFunc(ofPods, func(pod netip.Prefix) bool { return pod.Addr().Is4() == prefix.Addr().Is4() }) {
			ofServices = append(ofServices, prefix)
		}
	}
	if len(ofServices) == 0 {
		return nil, nil, errors.New("--run needs ranges of IPv4 for pods and Services, or of one family for both with --enable-ipv6")
	}
	return ofPods, ofServices, nil
}

// run keeps the sandbox until ctx ends; that it ends before is a failure.
func (in *inside) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-in.Done():
		return in.Err()
	}
}

// serveAPI leads connections of pods to the API server's address on.
func (in *inside) serveAPI(ctx context.Context, api string) error {
	l, err := in.Listen(ctx, sandbox.Place{}, in.api)
	if err != nil {
		return err
	}
	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("listener at "+in.api.String(), func() error {
		<-ctx.Done()
		return l.Close()
	})
	for {
		from, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil {
				return fmt.Errorf("accept connections for the API server: %w", err)
			}
			_ = group.Cancel() // what it waits for are connections that have been closed
			return ctx.Err()
		}
		group.Go("connection to the API server", func() error {
			relay(ctx, from, api)
			return nil
		})
	}
}

// relay copies both ways until both have been closed, or ctx ends.
func relay(ctx context.Context, from net.Conn, address string) {
	defer from.Close()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return // as if nobody had listened
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { from.Close(); to.Close() })
	defer stop()
	var group lifecycle.Group
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		group.Go("one way", func() error {
			_, _ = io.Copy(way[1], way[0])
			return way[1].(*net.TCPConn).CloseWrite()
		})
	}
	_ = group.Wait() // it is the end of a connection
}

// kubeletPort is what nodes say of their kubelet; 0 where nothing runs.
func (c *Cluster) kubeletPort() int32 {
	if c.inside == nil {
		return 0
	}
	return int32(c.inside.kubelet.Addr().(*net.TCPAddr).Port)
}

func (c *Cluster) insideListeners() []listeners {
	if c.inside == nil {
		return nil
	}
	return c.inside.listeners
}

// partLogs are the logs of control-plane pods.
func (c *Cluster) partLogs() *partLogs {
	return &partLogs{dir: filepath.Join(c.dir.Path(), "parts")}
}

// podAccess tells the API server how it reaches what runs in pods.
func (w *wiring) podAccess(config *apiserver.Config) error {
	if w.inside == nil {
		return nil
	}
	var err error
	if w.kubelets, err = w.keys.NewNodes(w.inside.kubelet.Addr()); err != nil {
		return err
	}
	w.backend = &backend{logs: w.partLogs(), controlPlaneNamespace: w.config.ControlPlane.ControlPlaneNamespace, listeners: w.listeners, knows: func(namespace, pod string) bool {
		_, is := state.Get(w.state.Snapshot().Reader(), state.Pods, namespace, pod)
		return is
	}}
	config.Nodes, config.Serves = w.kubelets, w.backend.Serves
	config.DialPod = func(ctx context.Context, _, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		return w.inside.Dial(ctx, sandbox.Place{}, to, 10*time.Second)
	}
	return nil
}

// addContainers adds what runs the containers of pods.
func (w *wiring) addContainers() (*containers.Runner, error) {
	recorder := &events{client: w.kube.CoreV1(), source: "kubelet"}
	run, programs := w.config.Run, w.config.Run.Programs
	if len(run.Images) > 0 || run.Pull {
		var err error
		// All instances of a user share what is unpacked.
		dir := filepath.Join(datadir.StateHome(), "images")
		if programs.Images, err = images.Open(images.Config{Dir: dir, Sources: run.Images, Pull: run.Pull, Log: w.log.With("part", "containers")}); err != nil {
			return nil, err
		}
	}
	runner := containers.New(containers.Config{
		Sandbox: w.inside.Sandbox, Dir: filepath.Join(w.dir.Path(), "run"), Programs: programs, Client: w.kube,
		Changed: func(namespace, name string) { w.nodes.Changed(namespace, name) }, Events: recorder,
		ClusterDomain: w.config.ControlPlane.ClusterDomain, DNS: w.inside.dns.Addr(), HostPaths: run.HostPaths,
		StopWithin: stopTimeout - 2*time.Second, Clock: clock.RealClock{}, Out: w.out, Log: w.log.With("part", "containers"),
	})
	w.backend.Runner = runner
	server := streaming.New(streaming.Config{Backend: w.backend, TLS: w.kubelets.TLS(), Log: w.log.With("part", "kubelet")})
	w.add("kubelet server", atOnce(func(ctx context.Context) error { return server.Serve(ctx, w.inside.kubelet) }), w.admin)
	w.sandbox = w.add("sandbox", atOnce(w.inside.run))
	w.background("relay", func(ctx context.Context) error { return w.inside.serveAPI(ctx, w.listeners["api"].Addr().String()) }, w.sandbox, w.apiserver)
	w.containers = w.add("containers", runner.Run, w.sandbox, w.add("container events", recorder.Run, w.apiserver))
	return runner, nil
}

// resolvConf names who knows the names that the cluster does not.
const resolvConf = "/etc/resolv.conf"

// serveDNS answers pods at the address of the Service, and at those of this machine in the sandbox.
func (in *inside) serveDNS(ctx context.Context, server *dns.Server) error {
	group, ctx := lifecycle.NewGroup(ctx)
	at := []netip.AddrPort{in.dns}
	for _, host := range in.hosts {
		at = append(at, netip.AddrPortFrom(host, dns.Port))
	}
	for _, at := range at {
		packets, err := in.ListenPacket(ctx, sandbox.Place{}, at)
		if err != nil {
			return errors.Join(err, group.Cancel())
		}
		listener, err := in.Listen(ctx, sandbox.Place{}, at)
		if err != nil {
			packets.Close()
			return errors.Join(err, group.Cancel())
		}
		group.Go("DNS at "+at.String(), func() error { return server.Serve(ctx, packets, listener) })
	}
	return group.Wait()
}

// addServices adds what leads connections of pods to Services, and names to addresses.
func (w *wiring) addServices() error {
	if w.inside == nil {
		// What a former run with pods that run has left.
		w.background("dns", func(ctx context.Context) error {
			if err := dns.Withdraw(ctx, w.ownKube); err != nil && ctx.Err() == nil {
				w.log.Warn("the Service of DNS stays, which nobody answers", "error", err)
			}
			return nil
		}, w.apiserver)
		return nil
	}
	server, err := dns.New(dns.Config{Source: w.state, ClusterDomain: w.config.ControlPlane.ClusterDomain, Upstream: resolvConf, Log: w.log.With("part", "dns")})
	if err != nil {
		return err
	}
	w.add("dns", func(ctx context.Context, ready func()) error {
		if err := dns.Publish(ctx, w.ownKube, w.inside.dns.Addr(), w.inside.hosts[0]); err != nil {
			w.problems.Say("start", "dns", problems.Problem{Severity: problems.Error, Message: err.Error(), Instead: "names are answered all the same"})
		}
		ready()
		return w.inside.serveDNS(ctx, server)
	}, w.sandbox, w.stateRead)
	proxy := kubeproxy.New(w.plane.graph, w.inside, []netip.AddrPort{w.inside.api, w.inside.dns}, w.log.With("part", "kubeproxy"))
	w.add("kubeproxy", atOnce(proxy.Run), w.sandbox, w.viewsUp)
	return nil
}
