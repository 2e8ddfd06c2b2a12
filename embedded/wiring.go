package embedded

import (
	"context"
	"fmt"
	"os"
	"slices"

	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/controllers"
	"github.com/linkerd-lite/linkerd-lite/embedded/controlplane"
	"github.com/linkerd-lite/linkerd-lite/embedded/crds"
	"github.com/linkerd-lite/linkerd-lite/embedded/etcd"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// wiring puts a cluster together, wing by wing. Its fields are what one wing
// gives to later ones: what was built, and the part to wait for. A field is
// set by the wing in whose group it stands and zero where the cluster is
// without it.
type wiring struct {
	*Cluster
	partList

	// admin
	admin part
	// store
	etcdServers []string
	store       part
	// API server
	api                          *apiserver.Server
	kube, ownKube                kubernetes.Interface
	webhookClient                *webhook.Client
	apiserver, hooks, priorities part
	// workloads
	controllers, kubelet, sandbox, containers part
	nodes                                     *kubelet.Kubelet
	kubelets                                  *apiserver.Nodes
	backend                                   *backend
	// Linkerd's kinds and certificates
	definitions      []*apiextensionsv1.CustomResourceDefinition
	authority        *identity.Service
	crds, identities part
	// control plane
	plane *controlPlane
	state *state.State
	planeParts
	// admission and objects
	admission, objects part
	// manifests
	manifests part
}

// wire is the whole program: its wings, in the order in which each has what it needs.
func (c *Cluster) wire() ([]lifecycle.Part, error) {
	c.registry.MustRegister(promcollectors.NewGoCollector(), promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}))
	var err error
	if c.problems, err = problems.New(problems.Config{Log: c.log, Registerer: c.registry}); err != nil {
		return nil, err
	}
	w := &wiring{Cluster: c}
	w.begin("admin")
	w.addAdmin()
	for _, next := range []struct {
		name string
		add  func() error
	}{
		{"store", w.addStore},
		{"API server", w.addAPIServer},
		{"workloads", w.addWorkloads},
		{"Linkerd's kinds", w.addLinkerd},
		{"control plane", w.addControlPlane},
		{"admission", w.addAdmission},
		{"manifests", w.addManifests},
	} {
		w.begin(next.name)
		if err := next.add(); err != nil {
			return nil, err
		}
	}
	w.addRoles()
	c.groups = slices.DeleteFunc(w.wings, func(built wing) bool { return len(built.parts) == 0 })
	return w.parts, nil
}

// addAdmin adds what is there from the first moment to the last, so that one can
// see who is not ready. All others wait for it by way of the store.
func (w *wiring) addAdmin() {
	w.admin = w.add("admin", admin.New(admin.Config{
		Listener:  w.listeners["admin"],
		Ready:     w.ready,
		Status:    w.Status,
		Manifests: w.manifestStatus(),
		Problems:  func() []problems.Problem { return w.plane.found(w.problems) },
		State:     func(table string) (any, error) { return w.plane.describe(table) },
		Gatherer:  w.registry,
		Pprof:     w.config.ControlPlane.EnablePprof,
		Log:       w.log,
	}).Run)
	// Whoever comes before anybody serves is sent away, and comes back.
	w.background("doors", w.listeners.doors(controlPlaneListeners...))
	w.background("directory", w.dir.Guard)
}

// addStore adds etcd, unless there is one elsewhere, and the claim on it.
func (w *wiring) addStore() error {
	var err error
	if w.keys, err = apiserver.LoadKeys(w.dir.KeysDir()); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	after := w.admin
	if w.etcdServers = w.config.EtcdServers; len(w.etcdServers) == 0 {
		if after, err = w.addEtcd(); err != nil {
			return err
		}
	}
	holder := etcd.Holder{ID: w.keys.Fingerprint(), DataDir: w.dir.Path(), Host: host, PID: os.Getpid()}
	w.store = w.add("store", etcd.NewClaim(w.etcdServers, holder, w.log.With("part", "store")).Run, after)
	return nil
}

func (w *wiring) addEtcd() (part, error) {
	socket, err := w.dir.SocketPath("etcd.sock", etcd.MaxSocketPath)
	if err != nil {
		return part{}, err
	}
	store, err := etcd.New(etcd.Config{
		Dir:           w.dir.EtcdDir(),
		Socket:        socket,
		UnsafeNoFsync: w.config.Ephemeral || w.config.NoFsync,
		Failed:        func(err error) { w.supervisor.Fail("etcd", err) },
		Log:           w.log.With("part", "etcd"),
	})
	if err != nil {
		return part{}, err
	}
	w.etcdServers = []string{store.Endpoint()}
	return w.add("etcd", store.Run, w.admin), nil
}

// addAPIServer adds the API server and makes its clients.
func (w *wiring) addAPIServer() error {
	var err error
	if w.webhookClient, err = webhook.NewClient(); err != nil {
		return err
	}
	config := apiserver.Config{
		Webhooks:    w.shownToWebhooks(w.webhookClient),
		Listener:    w.listeners["api"],
		Keys:        w.keys,
		EtcdServers: w.etcdServers,
		ServiceCIDR: w.config.ServiceCIDR,
		Elsewhere: func(namespace, pod string) string {
			return servedInstead(w.config.ControlPlane.ControlPlaneNamespace, namespace, pod, w.listeners.addresses())
		},
		Problems: w.problems,
		Log:      w.log.With("part", "apiserver"),
	}
	if err := w.podAccess(&config); err != nil {
		return err
	}
	if w.api, err = apiserver.New(config); err != nil {
		return err
	}
	w.apiserver = w.append(lifecycle.Part{Name: "apiserver", Run: w.api.Run, Waits: w.api.Waits}, []part{w.store})
	w.hooks = w.append(lifecycle.Part{Name: "hooks", Task: true, Waits: w.api.Waits, Run: w.goOn("hooks",
		func(ctx context.Context, _ func()) error { return w.api.WaitHooks(ctx) })}, []part{w.apiserver})
	w.priorities = w.append(lifecycle.Part{Name: "priorities", Task: true, Run: w.api.KeepPriorities}, []part{w.apiserver})
	w.client, w.own = w.api.Client(), w.api.OwnClient()
	data, err := clientcmd.Write(*apiserver.Kubeconfig(w.client, "linkerd-lite"))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if err := datadir.WriteFile(w.dir.Kubeconfig(), data, 0o600); err != nil {
		return err
	}
	if w.kube, err = protobufClient(w.client); err != nil {
		return err
	}
	w.ownKube, err = protobufClient(w.own)
	return err
}

// addWorkloads adds what makes pods of workloads and gives them a life.
func (w *wiring) addWorkloads() error {
	if w.config.has(PartControllers) {
		caFile, caKeyFile := w.keys.CAFiles()
		w.controllers = w.add("controllers", w.goOn("controllers", controllers.New(controllers.Config{
			Client:          w.client,
			RootCA:          w.keys.CA(),
			CAFile:          caFile,
			CAKeyFile:       caKeyFile,
			AccountsKeyFile: w.keys.AccountsKeyFile(),
			WithoutGC:       !w.config.has(PartGC),
			Problems:        w.problems,
			Log:             w.log.With("part", "controllers"),
		}).Run), w.apiserver)
	}
	if w.config.has(PartKubelet) {
		var runner kubelet.Runner // stays nil where all pods stand in
		var err error
		if w.inside != nil {
			if runner, err = w.addContainers(); err != nil {
				return err
			}
		}
		w.nodes, err = kubelet.New(kubelet.Config{
			Runner: runner, Port: w.kubeletPort(),
			Client: w.kube, Own: w.ownKube, Problems: w.problems, Nodes: w.config.Nodes, PodCIDRs: w.config.PodCIDRs, DataDir: w.dir.Path(),
			Logger: w.log, Registerer: w.registry,
		})
		if err != nil {
			return err
		}
		w.kubelet = w.add("kubelet", w.goOn("kubelet", w.nodes.Run), w.apiserver, w.containers)
	}
	return nil
}

// addLinkerd adds Linkerd's kinds and the certificate authority.
func (w *wiring) addLinkerd() error {
	var err error
	if w.definitions, err = w.config.builtin(); err != nil {
		return err
	}
	keeper, err := crds.New(w.own, w.definitions, w.problems, w.log.With("part", "crds"))
	if err != nil {
		return err
	}
	w.crds = w.add("crds", keeper.Run, w.apiserver)
	recorder := &events{client: w.kube.CoreV1(), source: identity.EventSource}
	if w.authority, err = w.newIdentity(w.kube, recorder); err != nil {
		return err
	}
	w.identities = w.add("identity", w.authority.Run, w.add("events", recorder.Run, w.apiserver))
	return nil
}

// addControlPlane adds what answers proxies. What writes waits for the objects
// of the control plane, which own its Leases.
func (w *wiring) addControlPlane() error {
	if !w.config.has(PartControlPlane) {
		return nil
	}
	var err error
	if w.plane, err = newControlPlane(controlPlane{
		config: &w.config.ControlPlane, log: w.log, registry: w.registry, problems: w.problems, listeners: w.listeners,
		inside: w.insideListeners(), client: w.client, kube: w.kube, holder: w.holder(), leases: w.ownKube, identity: w.authority,
	}); err != nil {
		return err
	}
	w.state, w.plane.graph.Before = w.plane.state, w.config.beforeView
	if w.planeParts, err = w.plane.add(&w.partList, w.crds, w.identities); err != nil {
		return err
	}
	return w.addServices()
}

// addAdmission adds the webhooks and the objects by which tools recognise a
// control plane, and what writes on its behalf.
func (w *wiring) addAdmission() error {
	hooks, err := w.newWebhooks(w.kube, w.authority, w.plane, w.webhookClient)
	if err != nil {
		return err
	}
	var server part
	if hooks.server != nil {
		// The check of ServiceProfiles reads the State.
		server = w.add("webhook", hooks.run, w.identities, w.stateRead)
	}
	w.admission = w.add("admission", hooks.registrar.Run, w.crds, server)
	if w.keeper, err = controlplane.NewKeeper(controlplane.KeeperConfig{
		Client: w.own, Problems: w.problems, Log: w.log.With("part", "objects"),
		Describe: func() controlplane.Config { return w.ownObjects(w.authority, hooks.server) },
	}); err != nil {
		return err
	}
	w.objects = w.add("objects", w.keeper.Run, w.admission, w.identities)
	if w.plane == nil || !w.config.has(PartStatus) {
		return nil
	}
	return w.plane.addWriters(&w.partList, w.viewsUp, w.objects)
}

// addManifests comes last, so that what they hold meets the whole cluster.
func (w *wiring) addManifests() error {
	if len(w.config.Dirs) == 0 {
		return nil
	}
	syncer, err := newSyncer(w.config, w.client, w.definitions, manifestsDir(w.dir.Path()))
	if err != nil {
		return err
	}
	w.syncer = syncer
	w.manifests = w.add("manifests", syncer.Run, w.admission, w.objects, w.priorities, w.controllers, w.kubelet, w.serving)
	if w.plane != nil {
		w.task("settled", (&settler{
			client: w.kube, state: w.state, warn: w.warn,
			waitWorkloads: w.config.Settle && w.config.has(PartControllers) && w.config.has(PartKubelet),
		}).run, w.manifests)
	}
	return nil
}

// addRoles adds a hundred and fifty writes that nobody waits for, since our own
// clients may do everything.
func (w *wiring) addRoles() {
	w.background("roles", func(ctx context.Context) error { return w.api.KeepRoles(ctx, func() {}) }, w.objects, w.hooks, w.manifests)
}
