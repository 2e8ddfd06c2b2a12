package state

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// source makes list-and-watch calls in the form each kind is fetched in.
type source struct {
	typed           kubernetes.Interface
	metadata        metadata.Interface
	dynamic         dynamic.Interface
	secretNamespace string
	// definitions has what is known of each custom kind's CRD, by its name.
	definitions map[string]*definition
}

// definition is what a kind's reflector has to know of its CRD.
type definition struct {
	// changed gets a value when the CRD was made or changed.
	changed chan struct{}

	mu sync.Mutex
	// generation is that of the CRD's specification, 0 before it is known.
	generation int64
	// again ends what the reflector does now.
	again context.CancelFunc
}

func newSource(config *rest.Config, s *State) (*source, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	src := &source{secretNamespace: s.config.SecretNamespace, definitions: map[string]*definition{}}
	typedConfig := rest.CopyConfig(config)
	typedConfig.ContentType = runtime.ContentTypeProtobuf
	typedConfig.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if src.typed, err = kubernetes.NewForConfigAndClient(typedConfig, client); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if src.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if src.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	for _, info := range s.config.Kinds {
		if info.form == custom {
			src.definitions[definitionName(info)] = &definition{changed: make(chan struct{}, 1), again: func() {}}
		}
	}
	return src, nil
}

func definitionName(info *KindInfo) string { return info.GVR.GroupResource().String() }

// definitionChanged returns a channel that gets a value when the kind's CRD was
// created or changed; nil for kinds that have none.
func (s *source) definitionChanged(info *KindInfo) <-chan struct{} {
	if d := s.definitions[definitionName(info)]; d != nil {
		return d.changed
	}
	return nil
}

// attempt returns a context for a list and a watch of the kind. It ends when
// its CRD gets another specification: a watch goes on as the old one said, when
// nobody can list the kind any more.
func (s *source) attempt(ctx context.Context, info *KindInfo) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if d := s.definitions[definitionName(info)]; d != nil {
		d.mu.Lock()
		d.again = cancel
		d.mu.Unlock()
	}
	return ctx, cancel
}

// see takes note of a version of the CRD.
func (d *definition) see(crd metav1.Object) {
	select {
	case d.changed <- struct{}{}:
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.generation
	d.generation = crd.GetGeneration()
	if before != 0 && before != d.generation {
		d.again()
	}
}

// expected is the type that the kind's events have.
func expected(kind *KindInfo) any {
	switch kind.form {
	case metadataOnly:
		return &metav1.PartialObjectMetadata{}
	case custom:
		return &unstructured.Unstructured{}
	default:
		return kind.empty()
	}
}

func (s *source) listWatch(ctx context.Context, info *KindInfo) cache.ListerWatcher {
	switch info.form {
	case metadataOnly:
		return listWatch(s.metadata.Resource(info.GVR))
	case custom:
		return listWatch(s.dynamic.Resource(info.GVR))
	}
	namespace := metav1.NamespaceAll
	modify := func(*metav1.ListOptions) {}
	if info.id == Secrets.id {
		// Only cluster credentials: a control plane has no business with other Secrets.
		namespace = s.secretNamespace
		modify = func(options *metav1.ListOptions) { options.LabelSelector = linkerd.ClusterNameLabel }
	}
	return cache.NewFilteredListWatchFromClient(s.restClient(info.GVR.GroupVersion()), info.GVR.Resource, namespace, modify)
}

// listWatch lists and watches a resource of a client without types.
func listWatch[L runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: resource.Watch,
	}
}

func (s *source) restClient(gv schema.GroupVersion) rest.Interface {
	if gv.Group == "discovery.k8s.io" {
		return s.typed.DiscoveryV1().RESTClient()
	}
	return s.typed.CoreV1().RESTClient()
}

// watchDefinitions wakes the kinds whose CRD appears or changes, until ctx
// ends. Where CRDs cannot be watched, absent kinds are polled instead.
func (s *source) watchDefinitions(ctx context.Context) {
	lw := listWatch(s.metadata.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}))
	cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, definitionSink{s}, cache.ReflectorOptions{
		Name:            "state/definitions",
		TypeDescription: "customresourcedefinitions",
	}).RunWithContext(ctx)
}

// definitionSink turns CRD events into wake-ups.
type definitionSink struct{ *source }

func (d definitionSink) wake(obj any) error {
	if m, ok := obj.(metav1.Object); ok {
		if known := d.definitions[m.GetName()]; known != nil {
			known.see(m)
		}
	}
	return nil
}

func (d definitionSink) Add(obj any) error    { return d.wake(obj) }
func (d definitionSink) Update(obj any) error { return d.wake(obj) }
func (d definitionSink) Delete(any) error     { return nil }
func (d definitionSink) Resync() error        { return nil }

func (d definitionSink) Replace(list []any, _ string) error {
	for _, obj := range list {
		_ = d.wake(obj)
	}
	return nil
}
