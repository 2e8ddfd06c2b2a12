package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// workers is how many objects of a kind a controller looks after at once.
const workers = 4

// Config sets up a Manager.
type Config struct {
	// Client must not limit requests (QPS -1).
	Client *rest.Config
	// RootCA is the certificate bundle that is put into each namespace for
	// clients of the API server, PEM.
	RootCA []byte
	// CAFile and CAKeyFile are the CA that signs certificates for clients of the API server.
	CAFile, CAKeyFile string
	// AccountsKeyFile has the key that signs service account tokens.
	AccountsKeyFile string
	// WithoutGC leaves out the garbage collector: objects then outlive their owners.
	WithoutGC bool
	// Problems gets kinds in use of which nothing is made here; it may be nil.
	Problems *problems.Table
	Log      *slog.Logger
}

// Manager runs the controllers. They share one informer for each kind.
type Manager struct {
	config Config
}

// New prepares a manager.
func New(config Config) *Manager {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Manager{config: config}
}

// constructor makes one controller and returns what runs it until its context ends.
type constructor struct {
	name string
	make func(ctx context.Context, t *tools) (func(context.Context), error)
	// of is the kind without which the controller has nothing to do: it is made
	// when the first object appears. The zero kind is for one that is made at once.
	of schema.GroupVersionResource
	// concerns limits these objects; nil is all.
	concerns func(object any) bool
}

// constructors are the controllers of kube-controller-manager that run here;
// docs/controllers.md has all of them, with what becomes of the others.
func (m *Manager) constructors() []constructor {
	apps, batch := appsv1.SchemeGroupVersion.WithResource, batchv1.SchemeGroupVersion.WithResource
	core := corev1.SchemeGroupVersion.WithResource
	list := []constructor{
		{name: "serviceaccount", make: newServiceAccounts},
		{name: "root-ca-publisher", make: m.newRootCA},
		{name: "endpoints", make: newEndpoints},
		{name: "endpointslice", make: newEndpointSlices},
		{name: "endpointslicemirroring", make: newEndpointSliceMirroring},
		{name: "deployment", make: newDeployments},
		{name: "replicaset", make: newReplicaSets},
		{name: "job", make: newJobs},
		{name: "clusterrole-aggregation", make: newRoleAggregation},
		{name: "namespace", make: newNamespaces},
		{name: "statefulset", make: newStatefulSets, of: apps("statefulsets")},
		{name: "daemonset", make: newDaemonSets, of: apps("daemonsets")},
		{name: "cronjob", make: newCronJobs, of: batch("cronjobs")},
		{name: "replicationcontroller", make: newReplicationControllers, of: core("replicationcontrollers")},
		{name: "ttl-after-finished", make: newTTLAfterFinished, of: batch("jobs"), concerns: hasTTL},
		{name: "serviceaccount-token", make: m.newTokens, of: core("secrets"), concerns: isTokenSecret},
		{name: "resourcequota", make: newQuota, of: core("resourcequotas")},
		{name: "disruption", make: newDisruption, of: policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")},
		{name: "horizontal-pod-autoscaler", make: newAutoscaling, of: autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")},
		{name: "certificatesigningrequest", make: m.newCertificates, of: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")},
	}
	if !m.config.WithoutGC {
		list = append(list, constructor{name: "garbage-collector", make: newGarbageCollector})
	}
	return list
}

// Run runs the controllers until ctx ends. It calls ready once they have read
// what there is. The API server must answer when it starts.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	t, err := newTools(m.config.Client)
	if err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	group, ctx := lifecycle.NewGroup(ctx)
	if err := m.start(ctx, t, m.constructors(), group.Go); err != nil {
		return err
	}
	if err := m.notice(t); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	t.start(ctx)
	group.Go("first lists", func() error {
		t.factory.WaitForCacheSyncWithContext(ctx)
		if ctx.Err() == nil {
			ready()
		}
		return nil
	})
	err = group.Wait()
	t.shutdown()
	return err
}

// start gives what runs the controllers to run, by which each has a goroutine.
func (m *Manager) start(ctx context.Context, t *tools, list []constructor, run func(string, func() error)) error {
	for _, c := range list {
		prepare := m.begin
		if c.of != (schema.GroupVersionResource{}) {
			prepare = m.await
		}
		prepared, err := prepare(ctx, t, c)
		if err != nil {
			return fmt.Errorf("controllers: %s: %w", c.name, err)
		}
		run(c.name, func() error {
			if err := prepared(ctx); err != nil {
				return fmt.Errorf("controllers: %s: %w", c.name, err)
			}
			return nil
		})
	}
	return nil
}

// begin makes a controller and returns what runs it.
func (m *Manager) begin(ctx context.Context, t *tools, c constructor) (func(context.Context) error, error) {
	run, err := c.make(ctx, t)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		run(ctx)
		if ctx.Err() == nil {
			return errors.New("ended by itself")
		}
		return nil
	}, nil
}

// await returns what makes and runs a controller once there is an object for it.
func (m *Manager) await(_ context.Context, t *tools, c constructor) (func(context.Context) error, error) {
	informer, err := t.factory.ForResource(c.of)
	if err != nil {
		return nil, err
	}
	appeared := make(chan struct{})
	var once sync.Once
	look := func(object any) {
		if c.concerns == nil || c.concerns(object) {
			once.Do(func() { close(appeared) })
		}
	}
	handle, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, object any) { look(object) }})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		select {
		case <-appeared:
		case <-ctx.Done():
			return nil
		}
		if err := informer.Informer().RemoveEventHandler(handle); err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		own := t.apart()
		defer own.shutdown()
		defer stop()
		run, err := m.begin(ctx, own, c)
		if err != nil {
			return err
		}
		own.start(ctx)
		return run(ctx)
	}, nil
}
