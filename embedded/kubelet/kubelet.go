package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Node is a node to register.
type Node struct {
	Name string
	// Zone becomes the label topology.kubernetes.io/zone unless it is empty.
	Zone string
}

// Config is what a kubelet needs.
type Config struct {
	// Client must not be rate limited (rest.Config.QPS -1).
	Client kubernetes.Interface
	// Own writes the nodes to register; it should be one whose writes no policy of
	// a user refuses. Nil: Client.
	Own kubernetes.Interface
	// Problems gets what keeps nodes from being registered.
	Problems *problems.Table
	// Nodes to register; default: one named DefaultNode, without a zone.
	Nodes []Node
	// PodCIDRs are the ranges of pod addresses, one or one of each family; a pod
	// gets an address of each, in this order.
	PodCIDRs []netip.Prefix
	// Port is where nodes say that their kubelet serves; 0: nowhere.
	Port int32
	// DataDir holds the ledger of given-up addresses; empty: it is not kept.
	DataDir string
	// Runner runs pods that have something to run; nil: all stand in.
	Runner Runner
	// Workers is how many objects are looked after at once; default 8.
	Workers    int
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// DefaultNode is the name of the node there is if none is configured.
const DefaultNode = "lite"

// Kubelet is the stand-in for scheduler and kubelets.
//
//  1. Informers of pods and nodes put the names of what changed into a queue.
//  2. A worker compares one object with what it ought to be and does the next
//     step: bind, write the status, confirm the end. The write comes back as a
//     change and leads to the step after it, so every step sees what is stored.
//  3. A write carries the resource version it was made from. If another
//     writer was faster it fails, and the change of that writer is already on
//     its way to the queue.
type Kubelet struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time

	mu        sync.Mutex // guards that queue is set
	queue     workqueue.TypedRateLimitingInterface[item]
	pods      corelisters.PodLister
	podIndex  cache.Indexer
	nodes     corelisters.NodeLister
	addresses *addresses
	load      *load
	watch     *stopwatch
	version   string
}

// item names an object to look after.
type item struct {
	node      bool
	namespace string
	name      string
}

func podItem(pod *corev1.Pod) item  { return item{namespace: pod.Namespace, name: pod.Name} }
func nodeItem(node string) item     { return item{node: true, name: node} }
func (i item) attribute() slog.Attr { return slog.String("object", i.String()) }

func (i item) String() string {
	if i.node {
		return "node/" + i.name
	}
	return "pod/" + i.namespace + "/" + i.name
}

// New checks the configuration; nothing is started.
func New(config Config) (*Kubelet, error) {
	if config.Client == nil {
		return nil, errors.New("kubelet needs a client")
	}
	if len(config.Nodes) == 0 {
		config.Nodes = []Node{{Name: DefaultNode}}
	}
	if config.Own == nil {
		config.Own = config.Client
	}
	if config.Workers == 0 {
		config.Workers = 8
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkRanges(config.PodCIDRs); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, node := range config.Nodes {
		if names[node.Name] {
			return nil, fmt.Errorf("node %q is configured twice", node.Name)
		}
		names[node.Name] = true
		if err := checkNode(node); err != nil {
			return nil, err
		}
	}
	k := &Kubelet{
		config: config,
		log:    config.Logger.With("part", "kubelet"),
		now:    time.Now,
		load:   newLoad(),
		watch:  newStopwatch(),
	}
	m, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	k.metrics = m
	return k, nil
}

func checkRanges(ranges []netip.Prefix) error {
	if len(ranges) == 0 || len(ranges) > 2 {
		return fmt.Errorf("%d pod ranges: want one, or one of each family", len(ranges))
	}
	if len(ranges) == 2 && ranges[0].Addr().Is4() == ranges[1].Addr().Is4() {
		return fmt.Errorf("pod ranges %s and %s are of one family", ranges[0], ranges[1])
	}
	for _, prefix := range ranges {
		if !prefix.IsValid() || prefix.Addr().BitLen()-prefix.Bits() < 3 {
			return fmt.Errorf("pod range %s is too small: it needs at least 3 host bits", prefix)
		}
		if addr := prefix.Addr(); addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
			return fmt.Errorf("pod range %s: the API server refuses such addresses in endpoints", prefix)
		}
	}
	return nil
}

// Run looks after pods and nodes until ctx is done. It calls ready once the
// configured nodes take pods, or are refused: that is a problem then, and tried
// again.
func (k *Kubelet) Run(ctx context.Context, ready func()) error {
	ledger, remembered, err := openLedger(k.config.DataDir, k.log)
	if err != nil {
		return err
	}
	defer ledger.close()
	k.addresses = newAddresses(k.config.PodCIDRs, ledger, k.now)
	k.metrics.watch(k.addresses)
	k.mu.Lock()
	k.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[item](5*time.Millisecond, 5*time.Second))
	k.mu.Unlock()
	defer k.queue.ShutDown()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transform := trim
	if k.config.Runner != nil {
		transform = trimOwners // whoever runs pods needs all of them
	}
	factory := informers.NewSharedInformerFactoryWithOptions(k.config.Client, 0, informers.WithTransform(transform))
	synced, err := k.subscribe(factory)
	if err != nil {
		return err
	}
	defer factory.Shutdown() // waits for the informers, which end with ctx
	defer cancel()
	factory.StartWithContext(ctx)
	if !cache.WaitFor(ctx, "", synced...) { // unlike WaitForCacheSync it does not poll
		return ctx.Err()
	}
	if err := k.addresses.restore(remembered); err != nil {
		return err
	}
	version, err := k.config.Client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	k.version = version.GitVersion
	if err := k.register(ctx); err != nil && ctx.Err() == nil {
		// The workers try on: a node that is not there is in the queue.
		k.log.Warn("nodes are not registered yet, trying on", "error", err)
	}
	workers, ctx := lifecycle.NewGroup(ctx)
	for n := range k.config.Workers {
		workers.Go(fmt.Sprintf("kubelet worker %d", n), func() error { return k.work(ctx) })
	}
	ready()
	<-ctx.Done()
	k.queue.ShutDown()
	if err := workers.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// work does what is in the queue, until the queue ends.
func (k *Kubelet) work(ctx context.Context) error {
	for {
		next, shutdown := k.queue.Get()
		if shutdown {
			return nil
		}
		k.step(ctx, next)
	}
}

func (k *Kubelet) step(ctx context.Context, next item) {
	defer k.queue.Done(next)
	if ctx.Err() != nil {
		return
	}
	var err error
	if next.node {
		err = k.syncNode(ctx, next.name)
		k.judgeNode(next.name, err)
	} else {
		err = k.syncPod(ctx, next)
	}
	switch {
	case err == nil, apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The change that was in the way puts the object into the queue again, or its end is
		// near.
		k.queue.Forget(next)
	case apierrors.IsInvalid(err):
		// It would be refused again, however often it is sent.
		k.metrics.errors.Inc()
		k.log.Warn("refused, and left until the object changes", next.attribute(), slog.Any("error", err))
		k.queue.Forget(next)
	case ctx.Err() == nil:
		k.metrics.errors.Inc()
		k.log.Warn("will be tried again", next.attribute(), slog.Any("error", err))
		k.queue.AddRateLimited(next)
	}
}

const byNode = "node"

// subscribe sets the informers up and returns what to wait for.
func (k *Kubelet) subscribe(factory informers.SharedInformerFactory) ([]cache.DoneChecker, error) {
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	err := pods.Informer().AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods by node: %w", err)
	}
	k.pods, k.podIndex, k.nodes = pods.Lister(), pods.Informer().GetIndexer(), nodes.Lister()
	podEvents, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.podChanged(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { k.podChanged(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if pod, ok := last[*corev1.Pod](object); ok {
				k.podGone(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	nodeEvents, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { k.nodeChanged(nil, object.(*corev1.Node)) },
		UpdateFunc: func(old, object any) { k.nodeChanged(old.(*corev1.Node), object.(*corev1.Node)) },
		DeleteFunc: func(object any) {
			if node, ok := last[*corev1.Node](object); ok {
				k.nodeGone(node)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return []cache.DoneChecker{podEvents.HasSyncedChecker(), nodeEvents.HasSyncedChecker()}, nil
}

// last is the last known state of a deleted object.
func last[T any](object any) (T, bool) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	typed, ok := object.(T)
	return typed, ok
}

// stopwatch knows when pods were first seen and when they became Running, more
// exactly than their status, which has whole seconds.
type stopwatch struct {
	mu      sync.Mutex
	seen    map[types.UID]time.Time
	running map[types.UID]time.Time
}

func newStopwatch() *stopwatch {
	return &stopwatch{seen: map[types.UID]time.Time{}, running: map[types.UID]time.Time{}}
}

// see notes a pod that has yet to become Running.
func (w *stopwatch) see(pod types.UID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[pod]; !ok {
		w.seen[pod] = now
	}
}

// start notes that a pod became Running and returns how long that took.
func (w *stopwatch) start(pod types.UID, now time.Time) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[pod] = now
	seen, ok := w.seen[pod]
	delete(w.seen, pod)
	return now.Sub(seen), ok
}

func (w *stopwatch) startedAt(pod types.UID) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.running[pod]
	return at, ok
}

func (w *stopwatch) forget(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.seen, pod)
	delete(w.running, pod)
}
