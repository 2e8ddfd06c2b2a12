package controllers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
)

// userAgent is who has written what controllers write, as in other clusters: tools leave
// such changes alone.
const userAgent = "kube-controller-manager"

// tools are what controllers are made of.
type tools struct {
	client    kubernetes.Interface
	metadata  metadata.Interface
	factory   informers.SharedInformerFactory
	metaKinds metadatainformer.SharedInformerFactory
	// mapper asks the API server for its kinds when it is first used.
	mapper  meta.ResettableRESTMapper
	started chan struct{}
	// config is that of client, for others.
	config *rest.Config
}

func newTools(config *rest.Config) (*tools, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // no user reads what they say of old kinds
	config.UserAgent = userAgent
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	t := &tools{config: rest.CopyConfig(config)}
	if t.metadata, err = metadata.NewForConfigAndClient(config, http); err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if t.client, err = kubernetes.NewForConfigAndClient(config, http); err != nil {
		return nil, err
	}
	t.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(t.client.Discovery()))
	return t.apart(), nil
}

// apart is t with informers of its own, none of which runs yet. The handlers
// that a constructor adds use what it sets only afterwards, so a controller
// that is made late must not share informers that run already.
func (t *tools) apart() *tools {
	// No periodic resync: nothing here loses events.
	const resync = 0
	own := *t
	own.started = make(chan struct{})
	own.factory = informers.NewSharedInformerFactoryWithOptions(t.client, resync, informers.WithTransform(trim))
	own.metaKinds = metadatainformer.NewSharedInformerFactoryWithOptions(t.metadata, resync, metadatainformer.WithTransform(trim))
	return &own
}

// start starts the informers. They run until ctx ends.
func (t *tools) start(ctx context.Context) {
	t.factory.StartWithContext(ctx)
	close(t.started)
}

// shutdown waits for the informers after the context of start has ended.
func (t *tools) shutdown() {
	t.factory.Shutdown()
	t.metaKinds.Shutdown()
}

// scales reads and writes the scale of whatever has one.
func (t *tools) scales() (scale.ScalesGetter, error) {
	return scale.NewForConfig(t.config, t.mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(t.client.Discovery()))
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
