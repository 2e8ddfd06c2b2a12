package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

const (
	// stopTimeout bounds the stop; parts that take longer are named.
	stopTimeout = 10 * time.Second
	// failureTimeout bounds it after a failure: requests to an API server whose
	// store is gone would take until their deadline.
	failureTimeout = 2 * time.Second
)

// Cluster is a cluster in this process: its data directory, its sockets and
// its parts. Several can live in one process.
type Cluster struct {
	config    *Config
	log       *slog.Logger
	dir       *datadir.Dir
	listeners listeners
	registry  *prometheus.Registry
	// problems is what is wrong with objects and files, whichever part finds it.
	problems   *problems.Table
	supervisor *lifecycle.Supervisor
	info       datadir.RunInfo
	// keeper is told of new certificates by those who have them.
	keeper *objectKeeper
	// syncer is nil without manifest directories.
	syncer *manifests.Syncer
	client *rest.Config
	// out gets what the user should read.
	out io.Writer
	// notices are things to tell the user before the start.
	notices []string
	undo    []func() error
}

// New takes the data directory, binds all addresses and puts the parts
// together. Nothing runs until Run is called; Close undoes it.
func New(ctx context.Context, config Config) (*Cluster, error) {
	i := &Cluster{
		config: &config, log: config.Log, out: config.Out,
		registry: prometheus.NewRegistry(), keeper: newObjectKeeper(config.Log.With("part", "objects")),
	}
	var err error
	if i.problems, err = problems.New(problems.Config{Log: i.log, Registerer: i.registry}); err != nil {
		return nil, err
	}
	if err := i.prepare(ctx); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	parts, err := i.parts()
	if err == nil {
		i.supervisor, err = lifecycle.New(lifecycle.Config{
			Log: i.log, StopTimeout: stopTimeout, FailureTimeout: failureTimeout, OnReady: config.OnReady,
		}, parts...)
	}
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

func (i *Cluster) prepare(ctx context.Context) error {
	if err := i.openDir(ctx); err != nil {
		return err
	}
	i.undo = append(i.undo, i.dir.Close)
	var err error
	if i.listeners, err = i.config.ControlPlane.Addresses.bind(i.addresses()...); err != nil {
		return err
	}
	i.undo = append(i.undo, func() error { i.listeners.close(); return nil })
	withdraw, err := i.dir.Announce()
	if err != nil {
		return err
	}
	i.undo = append(i.undo, withdraw)
	i.info = i.describe()
	return i.info.Write(i.dir)
}

func (i *Cluster) openDir(ctx context.Context) error {
	if i.config.Ephemeral {
		dir, removed, err := datadir.OpenTemporary(ctx)
		for _, path := range removed {
			i.notices = append(i.notices, "removed "+path+", left behind by a process that is gone")
		}
		i.dir = dir
		return err
	}
	path := i.config.DataDir
	if path == "" {
		var err error
		if path, err = datadir.Default(i.config.Dirs); err != nil {
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
func (i *Cluster) parts() ([]lifecycle.Part, error) {
	o := i.config
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
		Problems:  i.problems.List,
		Gatherer:  i.registry,
		Pprof:     o.ControlPlane.EnablePprof,
		Log:       i.log,
	}).Run)

	// Store.
	etcdServers := o.EtcdServers
	apiAfter := []string{"admin"}
	if len(etcdServers) == 0 {
		socket, err := i.dir.SocketPath("etcd.sock", etcd.MaxSocketPath)
		if err != nil {
			return nil, err
		}
		store, err := etcd.New(etcd.Config{
			Dir:           i.dir.EtcdDir(),
			Socket:        socket,
			UnsafeNoFsync: o.Ephemeral || o.NoFsync,
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
	webhookClient, err := webhook.NewClient()
	if err != nil {
		return nil, err
	}
	api, err := apiserver.New(apiserver.Config{
		Webhooks:    i.webhookClient(webhookClient),
		Listener:    i.listeners["api"],
		Keys:        keys,
		EtcdServers: etcdServers,
		ServiceCIDR: o.ServiceCIDR,
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
	i.client = client
	kube, err := protobufClient(client)
	if err != nil {
		return nil, err
	}
	if o.has(PartControllers) {
		caFile, caKeyFile := keys.CAFiles()
		add("controllers", controllers.New(controllers.Config{
			Client:          client,
			RootCA:          keys.CA(),
			CAFile:          caFile,
			CAKeyFile:       caKeyFile,
			AccountsKeyFile: keys.AccountsKeyFile(),
			WithoutGC:       !o.has(PartGC),
			Problems:        i.problems,
			Log:             i.log.With("part", "controllers"),
		}).Run, "apiserver")
	}
	if o.has(PartKubelet) {
		nodes, err := kubelet.New(kubelet.Config{
			Client: kube, Nodes: o.Nodes, PodCIDRs: o.PodCIDRs, DataDir: i.dir.Path(),
			Logger: i.log, Registerer: i.registry,
		})
		if err != nil {
			return nil, err
		}
		add("kubelet", nodes.Run, "apiserver")
	}

	// Linkerd's kinds and certificates.
	definitions, err := i.config.builtin()
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
	var plane *controlPlane
	if o.has(PartCore) {
		if plane, err = newControlPlane(controlPlane{
			config: &o.ControlPlane, log: i.log, registry: i.registry, problems: i.problems, listeners: i.listeners,
			client: client, kube: kube, holder: i.holder(), identity: authority,
		}); err != nil {
			return nil, err
		}
		coreParts, err := plane.parts(o.has(PartStatus), []string{"crds"}, []string{"objects"})
		if err != nil {
			return nil, err
		}
		parts = append(parts, coreParts...)
	}

	// Admission.
	var st *state.State
	if plane != nil {
		st = plane.state
	}
	hooks, err := i.admission(client, kube, authority, st, webhookClient)
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
			return controlplane.Ensure(ctx, writer, i.ownObjects(authority, hooks.server))
		})
	}, "admission", "identity")

	// Manifests: last, so that what they hold meets the whole cluster.
	if len(o.Dirs) > 0 {
		sync, err := newSyncer(o, client, definitions, manifestsDir(i.dir.Path()))
		if err != nil {
			return nil, err
		}
		i.syncer = sync
		after := []string{"admission", "objects", "priorities"}
		for part, name := range map[string]string{PartControllers: "controllers", PartKubelet: "kubelet", PartCore: "core"} {
			if o.has(part) {
				after = append(after, name)
			}
		}
		add("manifests", sync.Run, after...)
	}
	if plane != nil && len(o.Dirs) > 0 {
		task("settled", func(ctx context.Context, _ func()) error {
			return (&settler{client: kube, state: plane.state, warn: i.warn, waitWorkloads: o.Settle && o.has(PartControllers) && o.has(PartKubelet)}).run(ctx)
		}, "manifests")
	}

	// Roles: a hundred and fifty writes that nobody waits for, since our own
	// clients may do everything.
	rolesAfter := []string{"objects", "hooks"}
	if len(o.Dirs) > 0 {
		rolesAfter = append(rolesAfter, "manifests")
	}
	task("roles", func(ctx context.Context, ready func()) error {
		ready()
		return api.EnsureRoles(ctx)
	}, rolesAfter...)
	return parts, nil
}

// addresses are the names of the listeners that this instance needs.
func (i *Cluster) addresses() []string {
	names := []string{"api", "admin"}
	if i.config.has(PartWebhooks) || i.config.has(PartInjector) {
		names = append(names, "webhook")
	}
	if i.config.has(PartCore) {
		names = append(names, coreListeners...)
	}
	return names
}

// holder is the same for every run on one data directory, so that Leases come
// back at once after a crash.
func (i *Cluster) holder() string { return "linkerd-lite-" + filepath.Base(i.dir.Path()) }

// warn tells the user of something that is not as it should be.
func (i *Cluster) warn(format string, args ...any) { fmt.Fprintf(i.out, "warning: "+format, args...) }

func (i *Cluster) writeKubeconfig(api *apiserver.Server) error {
	data, err := clientcmd.Write(*apiserver.Kubeconfig(api.Client(), "linkerd-lite"))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return datadir.WriteFile(i.dir.Kubeconfig(), data, 0o600)
}

// Run runs the parts until ctx ends or one fails.
func (i *Cluster) Run(ctx context.Context) error { return i.supervisor.Run(ctx) }

// status and ready work before the supervisor is there: the admin part is one of its own.
func (i *Cluster) status() []lifecycle.Status { return i.supervisor.Status() }

// manifestStatus is asked after the syncer has been built, by a part that is built before it.
func (i *Cluster) manifestStatus() func() any {
	if len(i.config.Dirs) == 0 {
		return nil
	}
	return func() any { return i.syncer.Status() }
}

func (i *Cluster) ready() bool { return i.supervisor.IsReady() }

// Ready is closed when all parts are ready.
func (i *Cluster) Ready() <-chan struct{} { return i.supervisor.Ready() }

// Fail ends the cluster, with the name of what has failed.
func (i *Cluster) Fail(part string, err error) { i.supervisor.Fail(part, err) }

// Notices are things to tell the user before the start.
func (i *Cluster) Notices() []string { return i.notices }

// Info describes the cluster as run.json does.
func (i *Cluster) Info() datadir.RunInfo { return i.info }

// Client is for the cluster's API server.
func (i *Cluster) Client() *rest.Config { return rest.CopyConfig(i.client) }

// Announce writes into run.json that the cluster is ready, after so long a start.
func (i *Cluster) Announce(start time.Duration) (datadir.RunInfo, error) {
	i.info.Ready = true
	i.info.ReadySeconds = start.Seconds()
	for _, status := range i.supervisor.Status() {
		i.info.Parts = append(i.info.Parts, datadir.PartTime{Name: status.Name, StartSeconds: status.Start.Seconds(), ReadySeconds: status.Ready.Seconds()})
	}
	return i.info, i.info.Write(i.dir)
}

func (i *Cluster) describe() datadir.RunInfo {
	return datadir.RunInfo{
		PID:        os.Getpid(),
		Version:    i.config.Version,
		DataDir:    i.dir.Path(),
		Dirs:       i.config.Dirs,
		Kubeconfig: i.dir.Kubeconfig(),

		ControlPlaneNamespace: i.config.ControlPlane.ControlPlaneNamespace,
		TrustDomain:           i.config.ControlPlane.TrustDomain,

		Addresses: i.listeners.addresses(),
		Started:   time.Now(),
	}
}

// Close undoes New, in reverse.
func (i *Cluster) Close() error {
	var errs []error
	for n := len(i.undo) - 1; n >= 0; n-- {
		errs = append(errs, i.undo[n]())
	}
	i.undo = nil
	return errors.Join(errs...)
}
