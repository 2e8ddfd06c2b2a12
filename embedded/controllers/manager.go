package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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
	// WithoutGC leaves out the garbage collector: objects then outlive their owners.
	WithoutGC bool
	// WithEndpoints also writes Endpoints, for who does not read EndpointSlices.
	WithEndpoints bool
	Log           *slog.Logger
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

// tools are what controllers are made of.
type tools struct {
	client    kubernetes.Interface
	metadata  metadata.Interface
	factory   informers.SharedInformerFactory
	metaKinds metadatainformer.SharedInformerFactory
	started   chan struct{}
}

// constructor makes one controller and returns what runs it until its context ends.
type constructor struct {
	name string
	make func(ctx context.Context, t *tools) (func(context.Context), error)
}

func (m *Manager) constructors() []constructor {
	list := []constructor{
		{"serviceaccount", newServiceAccounts},
		{"root-ca-publisher", m.newRootCA},
		{"endpointslice", newEndpointSlices},
		{"endpointslicemirroring", newEndpointSliceMirroring},
		{"deployment", newDeployments},
		{"replicaset", newReplicaSets},
		{"statefulset", newStatefulSets},
		{"daemonset", newDaemonSets},
		{"job", newJobs},
		{"cronjob", newCronJobs},
		{"clusterrole-aggregation", newRoleAggregation},
		{"namespace", newNamespaces},
	}
	if m.config.WithEndpoints {
		list = append(list, constructor{"endpoints", newEndpoints})
	}
	if !m.config.WithoutGC {
		list = append(list, constructor{"garbage-collector", newGarbageCollector})
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
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range m.constructors() {
		run, err := c.make(ctx, t)
		if err != nil {
			return fmt.Errorf("controllers: %s: %w", c.name, err)
		}
		group.Go(func() error {
			run(ctx)
			if ctx.Err() == nil {
				return fmt.Errorf("controllers: %s ended by itself", c.name)
			}
			return nil
		})
	}
	t.factory.StartWithContext(ctx)
	close(t.started)
	group.Go(func() error {
		t.factory.WaitForCacheSyncWithContext(ctx)
		if ctx.Err() == nil {
			ready()
		}
		return nil
	})
	err = group.Wait()
	t.factory.Shutdown()
	t.metaKinds.Shutdown()
	return err
}

func newTools(config *rest.Config) (*tools, error) {
	config = rest.CopyConfig(config)
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	t := &tools{started: make(chan struct{})}
	if t.metadata, err = metadata.NewForConfigAndClient(config, http); err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if t.client, err = kubernetes.NewForConfigAndClient(config, http); err != nil {
		return nil, err
	}
	// No periodic resync: nothing here loses events.
	const resync = 0
	t.factory = informers.NewSharedInformerFactoryWithOptions(t.client, resync, informers.WithTransform(trim))
	t.metaKinds = metadatainformer.NewSharedInformerFactoryWithOptions(t.metadata, resync, metadatainformer.WithTransform(trim))
	return t, nil
}

// trim drops what no controller reads. The server keeps it when a controller
// writes such an object back.
func trim(object any) (any, error) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return unknown, nil
	}
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// endpointBatch is how long changes of endpoints are collected; 0 writes at once.
const endpointBatch time.Duration = 0
