package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/controllers"
	"github.com/linkerd-lite/linkerd-lite/embedded/controlplane"
	"github.com/linkerd-lite/linkerd-lite/embedded/crds"
	"github.com/linkerd-lite/linkerd-lite/embedded/etcd"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

const (
	// stopTimeout bounds the stop; parts that take longer are named.
	stopTimeout = 10 * time.Second
	// failureTimeout bounds it after a failure: requests to an API server whose
	// store is gone would take until their deadline.
	failureTimeout = 2 * time.Second
)

// instance is a cluster in this process: its data directory, its sockets and
// its parts. Several can live in one process.
type instance struct {
	options    *clusterOptions
	log        *slog.Logger
	dir        *datadir.Dir
	listeners  listeners
	registry   *prometheus.Registry
	supervisor *lifecycle.Supervisor
	info       RunInfo
	// keeper is told of new certificates by those who have them.
	keeper *objectKeeper
	// syncer is nil without manifest directories.
	syncer *manifests.Syncer
	// stateDir is where the inventory of manifests is.
	stateDir string
	client   *rest.Config
	// out gets what the user should read.
	out io.Writer
	// notices are things to tell the user before the start.
	notices []string
	undo    []func() error
}

// newInstance takes the data directory, binds all addresses and puts the parts
// together. Nothing runs until run is called; close undoes it.
func newInstance(ctx context.Context, options *clusterOptions, log *slog.Logger, out io.Writer, onReady func(lifecycle.Status)) (*instance, error) {
	i := &instance{options: options, log: log, out: out, registry: prometheus.NewRegistry(), keeper: newObjectKeeper(log.With("part", "objects"))}
	if err := i.prepare(ctx); err != nil {
		return nil, errors.Join(err, i.close())
	}
	parts, err := i.parts()
	if err == nil {
		i.supervisor, err = lifecycle.New(lifecycle.Config{
			Log: log, StopTimeout: stopTimeout, FailureTimeout: failureTimeout, OnReady: onReady,
		}, parts...)
	}
	if err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

func (i *instance) prepare(ctx context.Context) error {
	if err := i.openDir(ctx); err != nil {
		return err
	}
	i.undo = append(i.undo, i.dir.Close)
	var err error
	if i.listeners, err = i.options.core.addresses.bind(i.addresses()...); err != nil {
		return err
	}
	i.undo = append(i.undo, func() error { i.listeners.close(); return nil })
	withdraw, err := i.dir.Announce()
	if err != nil {
		return err
	}
	i.undo = append(i.undo, withdraw)
	i.info = newRunInfo(i)
	return i.info.write(i.dir)
}

func (i *instance) openDir(ctx context.Context) error {
	if i.options.ephemeral {
		dir, removed, err := datadir.OpenTemporary(ctx)
		for _, path := range removed {
			i.notices = append(i.notices, "removed "+path+", left behind by a process that is gone")
		}
		i.dir = dir
		return err
	}
	path := i.options.dataDir
	if path == "" {
		var err error
		if path, err = datadir.Default(i.options.dirs); err != nil {
			return err
		}
	}
	dir, err := datadir.Open(ctx, path)
	if err != nil {
		return err
	}
	i.dir = dir
	if dir.Crashed {
		i.notices = append(i.notices, "reusing "+dir.Path()+", whose last process did not stop by itself")
	}
	return nil
}

// parts is the whole program: each part, what it is given and what it waits for.
func (i *instance) parts() ([]lifecycle.Part, error) {
	o := i.options
	i.registry.MustRegister(promcollectors.NewGoCollector(), promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}))
	var parts []lifecycle.Part
	add := func(name string, run func(context.Context, func()) error, after ...string) {
		parts = append(parts, lifecycle.Part{Name: name, After: after, Run: run})
	}
	task := func(name string, run func(context.Context, func()) error, after ...string) {
		parts = append(parts, lifecycle.Part{Name: name, After: after, Run: run, Task: true})
	}

	// Admin: there from the first moment to the last, so that one can see who is
	// not ready. All others wait for it by way of the store.
	add("admin", admin.New(admin.Config{
		Listener:  i.listeners["admin"],
		Ready:     i.ready,
		Status:    i.status,
		Manifests: i.manifestStatus(),
		Gatherer:  i.registry,
		Pprof:     o.core.enablePprof,
		Log:       i.log,
	}).Run)

	// Store.
	etcdServers := o.etcdServers
	apiAfter := []string{"admin"}
	if len(etcdServers) == 0 {
		socket, err := i.dir.SocketPath("etcd.sock", etcd.MaxSocketPath)
		if err != nil {
			return nil, err
		}
		store, err := etcd.New(etcd.Config{
			Dir:           i.dir.EtcdDir(),
			Socket:        socket,
			UnsafeNoFsync: o.ephemeral || o.noFsync,
			Failed:        func(err error) { i.supervisor.Fail("etcd", err) },
			Log:           i.log.With("part", "etcd"),
		})
		if err != nil {
			return nil, err
		}
		add("etcd", store.Run, "admin")
		etcdServers, apiAfter = []string{store.Endpoint()}, []string{"etcd"}
	}

	// API server.
	keys, err := apiserver.LoadKeys(i.dir.KeysDir())
	if err != nil {
		return nil, err
	}
	api, err := apiserver.New(apiserver.Config{
		Listener:    i.listeners["api"],
		Keys:        keys,
		EtcdServers: etcdServers,
		ServiceCIDR: o.serviceCIDR,
		Log:         i.log.With("part", "apiserver"),
	})
	if err != nil {
		return nil, err
	}
	add("apiserver", api.Run, apiAfter...)
	task("hooks", func(ctx context.Context, _ func()) error { return api.WaitHooks(ctx) }, "apiserver")
	task("priorities", func(ctx context.Context, _ func()) error { return api.EnsurePriorities(ctx) }, "apiserver")
	if err := i.writeKubeconfig(api); err != nil {
		return nil, err
	}

	client := api.Client()
	i.client, i.stateDir = client, filepath.Join(i.dir.Path(), "manifests")
	kube, err := protobufClient(client)
	if err != nil {
		return nil, err
	}
	if o.has(partControllers) {
		add("controllers", controllers.New(controllers.Config{
			Client:        client,
			RootCA:        keys.CA(),
			WithoutGC:     !o.has(partGC),
			WithEndpoints: !o.core.enableEndpointSlices,
			Log:           i.log.With("part", "controllers"),
		}).Run, "apiserver")
	}
	if o.has(partKubelet) {
		nodes, err := kubelet.New(kubelet.Config{
			Client: kube, Nodes: o.nodes, PodCIDRs: o.podCIDRs, DataDir: i.dir.Path(),
			Logger: i.log, Registerer: i.registry,
		})
		if err != nil {
			return nil, err
		}
		add("kubelet", nodes.Run, "apiserver")
	}

	// Linkerd's kinds and certificates.
	definitions, err := i.builtin()
	if err != nil {
		return nil, err
	}
	keeper, err := crds.New(client, definitions, i.log.With("part", "crds"))
	if err != nil {
		return nil, err
	}
	add("crds", keeper.Run, "apiserver")
	recorder := &events{client: kube.CoreV1(), source: identity.EventSource}
	authority, err := i.newIdentity(kube, recorder)
	if err != nil {
		return nil, err
	}
	add("events", recorder.Run, "apiserver")
	add("identity", authority.Run, "events")
	var controlPlane *core
	if o.has(partCore) {
		if controlPlane, err = newCore(core{
			options: &o.core, log: i.log, registry: i.registry, listeners: i.listeners,
			client: client, kube: kube, holder: i.holder(), identity: authority,
		}); err != nil {
			return nil, err
		}
		coreParts, err := controlPlane.parts(o.has(partStatus), []string{"crds"}, []string{"objects"})
		if err != nil {
			return nil, err
		}
		parts = append(parts, coreParts...)
	}

	// Admission.
	hooks, err := i.admission(client, kube, authority, controlPlane)
	if err != nil {
		return nil, err
	}
	if hooks.server != nil {
		add("webhook", hooks.run, "identity")
		add("admission", hooks.registrar.Run, "crds", "webhook")
	} else {
		add("admission", hooks.registrar.Run, "crds")
	}
	writer, err := dynamic.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("client for objects: %w", err)
	}
	add("objects", func(ctx context.Context, ready func()) error {
		return i.keeper.run(ctx, ready, func(ctx context.Context) error {
			return controlplane.Ensure(ctx, writer, i.controlPlane(authority, hooks.server))
		})
	}, "admission", "identity")

	// Manifests: last, so that what they hold meets the whole cluster.
	if len(o.dirs) > 0 {
		sync, err := i.newSyncer(client, definitions, o.dirs)
		if err != nil {
			return nil, err
		}
		i.syncer = sync
		after := []string{"admission", "objects", "priorities"}
		for part, name := range map[string]string{partControllers: "controllers", partKubelet: "kubelet", partCore: "core"} {
			if o.has(part) {
				after = append(after, name)
			}
		}
		add("manifests", sync.Run, after...)
	}
	if controlPlane != nil && len(o.dirs) > 0 {
		task("settled", func(ctx context.Context, _ func()) error {
			return (&settler{client: kube, state: controlPlane.state, warn: i.warn, waitWorkloads: o.settle && o.has(partControllers) && o.has(partKubelet)}).run(ctx)
		}, "manifests")
	}

	// Roles: a hundred and fifty writes that nobody waits for, since our own
	// clients may do everything.
	rolesAfter := []string{"objects", "hooks"}
	if len(o.dirs) > 0 {
		rolesAfter = append(rolesAfter, "manifests")
	}
	task("roles", func(ctx context.Context, ready func()) error {
		ready()
		return api.EnsureRoles(ctx)
	}, rolesAfter...)
	return parts, nil
}

// addresses are the names of the listeners that this instance needs.
func (i *instance) addresses() []string {
	names := []string{"api", "admin"}
	if i.options.has(partWebhooks) || i.options.has(partInjector) {
		names = append(names, "webhook")
	}
	if i.options.has(partCore) {
		names = append(names, coreListeners...)
	}
	return names
}

// holder is the same for every run on one data directory, so that Leases come
// back at once after a crash.
func (i *instance) holder() string { return "linkerd-lite-" + filepath.Base(i.dir.Path()) }

// warn tells the user of something that is not as it should be.
func (i *instance) warn(format string, args ...any) { fmt.Fprintf(i.out, "warning: "+format, args...) }

func (i *instance) writeKubeconfig(api *apiserver.Server) error {
	data, err := clientcmd.Write(*apiserver.Kubeconfig(api.Client(), "linkerd-lite"))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return datadir.WriteFile(i.dir.Kubeconfig(), data, 0o600)
}

// run runs the parts until ctx ends or one fails.
func (i *instance) run(ctx context.Context) error { return i.supervisor.Run(ctx) }

// status and ready work before the supervisor is there: the admin part is one of its own.
func (i *instance) status() []lifecycle.Status { return i.supervisor.Status() }

// manifestStatus is asked after the syncer has been built, by a part that is built before it.
func (i *instance) manifestStatus() func() any {
	if len(i.options.dirs) == 0 {
		return nil
	}
	return func() any { return i.syncer.Status() }
}

func (i *instance) ready() bool { return i.supervisor.IsReady() }

// close undoes newInstance, in reverse.
func (i *instance) close() error {
	var errs []error
	for n := len(i.undo) - 1; n >= 0; n-- {
		errs = append(errs, i.undo[n]())
	}
	i.undo = nil
	return errors.Join(errs...)
}
