package crds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// FieldManager is the manager of the fields of the definitions that this package wrote.
const FieldManager = "linkerd-lite-crds"

// writers is how many definitions are written at once.
const writers = 8

// Keeper keeps the built-in definitions in an API server: it writes those that are missing, updates those that an
// earlier version of the program wrote, and leaves alone those that anyone else wrote. When such a replacement is
// removed, the built-in one returns.
//
// The algorithm:
//  1. A watch of all definitions keeps the newest object of each name in a store, without its schema.
//  2. Each change of a built-in name is queued; a writer compares the store with the built-in definition.
//  3. A name is served once its object is established and the API server answers a list of it.
//  4. What keeps a name from being served although its object is stored, such as a finalizer or the conversion webhook
//     of a user's definition, is a problem: nobody waits for that name any longer, and it is looked at again.
type Keeper struct {
	client  clientset.Interface
	rest    rest.Interface
	log     *slog.Logger
	builtin map[string]*apiextensionsv1.CustomResourceDefinition
	queue   workqueue.TypedRateLimitingInterface[string]
	table   *problems.Table

	mu     sync.Mutex
	served map[string]chan struct{} // closed once served; replaced when the definition is removed
	judged map[string]chan struct{} // closed once served, or known to be blocked
}

// New returns a keeper of built-in definitions, see Builtin, for the API server of config. Its client should be one whose
// writes no webhook of a user can refuse.
func New(config *rest.Config, builtin []*apiextensionsv1.CustomResourceDefinition, table *problems.Table, log *slog.Logger) (*Keeper, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of custom resource definitions: %w", err)
	}
	return newKeeper(client, client.ApiextensionsV1().RESTClient(), builtin, table, log), nil
}

func newKeeper(client clientset.Interface, restClient rest.Interface, builtin []*apiextensionsv1.CustomResourceDefinition, table *problems.Table, log *slog.Logger) *Keeper {
	k := &Keeper{
		client:  client,
		rest:    restClient,
		log:     log,
		table:   table,
		builtin: make(map[string]*apiextensionsv1.CustomResourceDefinition, len(builtin)),
		served:  make(map[string]chan struct{}, len(builtin)),
		judged:  make(map[string]chan struct{}, len(builtin)),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 10*time.Second)),
	}
	for _, crd := range builtin {
		k.builtin[crd.Name] = crd
		k.served[crd.Name] = make(chan struct{})
		k.judged[crd.Name] = make(chan struct{})
	}
	return k
}

// Names are the names of the definitions that are kept, in order.
func (k *Keeper) Names() []string {
	names := make([]string, 0, len(k.builtin))
	for name := range k.builtin {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Wait returns once the API server serves the named kinds, all if none is named. Names are those of definitions, such
// as "servers.policy.linkerd.io"; others than the built-in ones are an error.
func (k *Keeper) Wait(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		names = k.Names()
	}
	for _, name := range names {
		k.mu.Lock()
		served, ok := k.served[name]
		k.mu.Unlock()
		if !ok {
			return fmt.Errorf("custom resource definition %s: not built in", name)
		}
		select {
		case <-served:
		case <-ctx.Done():
			return fmt.Errorf("wait for custom resource definition %s: %w", name, context.Cause(ctx))
		}
	}
	return nil
}

// Run keeps the definitions until ctx ends, and calls ready once each of them is served, or blocked by what its problem
// says.
func (k *Keeper) Run(ctx context.Context, ready func()) error {
	informer := cache.NewSharedInformer(k.listWatch(), &apiextensionsv1.CustomResourceDefinition{}, 0)
	if err := informer.SetTransform(forget); err != nil {
		return err
	}
	enqueue := func(object any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil && k.builtin[name] != nil {
			k.queue.Add(name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: enqueue,
	}); err != nil {
		return err
	}

	group, ctx := lifecycle.NewGroup(ctx)
	group.Go("watch of definitions", func() error {
		informer.RunWithContext(ctx)
		return nil
	})
	group.Go("end of the queue", func() error {
		<-ctx.Done()
		k.queue.ShutDown()
		return nil
	})
	group.Go("writers of definitions", func() error {
		if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
			return nil
		}
		if err := k.establish(ctx, informer.GetStore()); err != nil {
			k.log.Warn("half established definitions are left to the API server", "error", err)
		}
		for name := range k.builtin {
			k.queue.Add(name)
		}
		writing, ctx := lifecycle.NewGroup(ctx)
		for n := range writers {
			writing.Go(fmt.Sprintf("writer of definitions %d", n), func() error {
				for k.next(ctx, informer.GetStore()) {
				}
				return nil
			})
		}
		return writing.Wait()
	})
	group.Go("readiness", func() error {
		for _, judged := range k.judged {
			select {
			case <-judged:
			case <-ctx.Done():
				return nil
			}
		}
		ready()
		return nil
	})
	return group.Wait()
}

// next handles one queued name, and returns false when the queue is shut down.
func (k *Keeper) next(ctx context.Context, store cache.Store) bool {
	name, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(name)
	err := k.reconcile(ctx, store, name)
	if ctx.Err() != nil {
		return true
	}
	k.judge(name, err)
	if err != nil {
		k.queue.AddRateLimited(name)
		return true
	}
	k.queue.Forget(name)
	return true
}

// How many attempts a definition has before others no longer wait for it: few when something of a user's is in the way, as
// that seldom passes by itself; more when it is not known what is wrong.
const (
	blockedPatience = 5
	patience        = 8
)

// judge takes note of an attempt to have a name served.
func (k *Keeper) judge(name string, err error) {
	if err == nil {
		k.table.Say(source, name)
		if k.isServed(name) {
			k.setJudged(name)
		}
		return
	}
	attempts := patience
	var blocked *blockedError
	if errors.As(err, &blocked) {
		attempts = blockedPatience
	}
	if k.queue.NumRequeues(name) < attempts {
		k.log.Info("custom resource definition not kept, trying again", "object", name, "error", err)
		return
	}
	k.table.Say(source, name, problems.Problem{
		Object: problems.ObjectOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", name), Severity: problems.Error,
		Message: err.Error(), Instead: "nothing of its kind counts until it is served",
	})
	k.setJudged(name)
}

// source is who says the problems of definitions.
const source = "crds"

// blockedError says what a user has to change before a definition is served.
type blockedError struct{ why string }

func (e *blockedError) Error() string { return e.why }

// reconcile compares the stored object of a name with the built-in one.
func (k *Keeper) reconcile(ctx context.Context, store cache.Store, name string) error {
	builtin := k.builtin[name]
	client := k.client.ApiextensionsV1().CustomResourceDefinitions()
	stored, exists, err := store.GetByKey(name)
	if err != nil {
		return err
	}
	if !exists {
		k.setServed(name, false)
		return create(ctx, client, builtin)
	}
	crd := stored.(*apiextensionsv1.CustomResourceDefinition)
	if crd.DeletionTimestamp != nil {
		k.setServed(name, false)
		return &blockedError{"it is being deleted, and comes back when that is done: " + remains(crd)}
	}
	if ours(crd) && crd.Annotations[hashAnnotation] != builtin.Annotations[hashAnnotation] {
		updated := builtin.DeepCopy()
		updated.ResourceVersion = crd.ResourceVersion
		if _, err := client.Update(ctx, updated, metav1.UpdateOptions{FieldManager: FieldManager}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("update: %w", err)
		}
		return nil // the update's own event brings us back
	}
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		k.setServed(name, false)
		return refusedNames(crd)
	}
	if k.isServed(name) {
		return nil
	}
	if err := k.awaitServing(ctx, crd); err != nil {
		return err
	}
	k.setServed(name, true)
	return nil
}

// remains says what holds a definition that is being deleted.
func remains(crd *apiextensionsv1.CustomResourceDefinition) string {
	var holders []string
	for _, finalizer := range crd.Finalizers {
		if finalizer != apiextensionsv1.CustomResourceCleanupFinalizer {
			holders = append(holders, "its finalizer "+finalizer)
		}
	}
	if len(holders) < len(crd.Finalizers) {
		holders = append(holders, "objects of its kind that have finalizers")
	}
	if len(holders) == 0 {
		return "the API server has not finished yet"
	}
	return "held by " + strings.Join(holders, " and ")
}

// refusedNames says why the API server does not accept the names of a definition, and nil while it has not decided.
func refusedNames(crd *apiextensionsv1.CustomResourceDefinition) error {
	accepted := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted)
	if accepted == nil || accepted.Status != apiextensionsv1.ConditionFalse {
		return nil
	}
	return &blockedError{fmt.Sprintf("its names are not accepted: %s", accepted.Message)}
}

func create(ctx context.Context, client crdclient.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	_, err := client.Create(ctx, crd, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

// ours tells whether nobody but this package wrote the object.
func ours(crd *apiextensionsv1.CustomResourceDefinition) bool {
	found := false
	for _, entry := range crd.ManagedFields {
		if entry.Subresource != "" {
			continue // the API server's own writes of the status
		}
		if entry.Manager != FieldManager {
			return false
		}
		found = true
	}
	return found
}

// awaitServing asks for the objects of a definition until the API server knows the resource: its handlers learn of an
// established definition shortly after the condition is written.
func (k *Keeper) awaitServing(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		path := []string{"/apis", crd.Spec.Group, version.Name, crd.Spec.Names.Plural}
		return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
			// Too early, the API server asks to come back in a second or five: the client would obey.
			err := k.rest.Get().MaxRetries(0).AbsPath(path...).Param("limit", "1").SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Error()
			if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) {
				return false, nil
			}
			var answer apierrors.APIStatus
			if errors.As(err, &answer) {
				// Such as that a conversion webhook does not answer.
				return false, &blockedError{fmt.Sprintf("its objects cannot be read: %v", err)}
			}
			return err == nil, err
		})
	}
	return &blockedError{"no version is served"}
}

func (k *Keeper) isServed(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.served[name]:
		return true
	default:
		return false
	}
}

func (k *Keeper) setServed(name string, served bool) {
	if k.isServed(name) == served {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if served {
		close(k.served[name])
		return
	}
	k.served[name] = make(chan struct{})
}

func (k *Keeper) setJudged(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.judged[name]:
	default:
		close(k.judged[name])
	}
}

func (k *Keeper) listWatch() cache.ListerWatcher {
	client := k.client.ApiextensionsV1().CustomResourceDefinitions()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}, k.client)
}

// forget drops the schemas, by far the largest part of a definition.
func forget(object any) (any, error) {
	if crd, ok := object.(*apiextensionsv1.CustomResourceDefinition); ok {
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Schema = nil
		}
	}
	return object, nil
}
