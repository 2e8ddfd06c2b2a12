package manifests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// debounce is how long a pass waits after an event, as one save makes several.
	debounce = 3 * time.Millisecond
	// readyWithin bounds how long what the directory itself brings, such as a CRD for
	// its objects, may hold up the end of the first pass.
	readyWithin = 5 * time.Second
	// soonEvery and laterEvery are how often a missing kind or namespace is looked
	// for, if the directory brings it and otherwise.
	soonEvery  = 50 * time.Millisecond
	laterEvery = 500 * time.Millisecond
)

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions = schema.GroupVersionResource{Group: crdKind.Group, Version: "v1", Resource: "customresourcedefinitions"}
)

// Syncer applies directories of manifests, and follows their changes.
type Syncer struct {
	cfg    Config
	status atomic.Pointer[Status]

	// mu is held by a pass, and by DryRun.
	mu       sync.Mutex
	scanner  *scanner
	watcher  *watcher
	client   metadata.Interface
	kinds    *kinds
	executor *executor
	printer  *printer
	inv      *inventory
	base     map[Key]Base
	failures map[Key]failure
	drift    map[Key]Drift
	leaving  map[Key]leaving
	// shown is where each desired object is written, for messages.
	shown   map[Key]Fault
	started time.Time
	ready   bool
	applied int // since the start
	pruned  int
}

// New makes a Syncer; it does no I/O.
func New(cfg Config) *Syncer {
	cfg.setDefaults()
	s := &Syncer{
		cfg:      cfg,
		printer:  newPrinter(cfg.Out, cfg.now),
		base:     map[Key]Base{},
		failures: map[Key]failure{},
		drift:    map[Key]Drift{},
		leaving:  map[Key]leaving{},
	}
	for _, b := range cfg.Base {
		s.base[Object{Unstructured: b.Object}.key()] = b
	}
	s.status.Store(&Status{})
	return s
}

// Run applies the directories and follows them until ctx ends. It calls ready
// when the first pass is done: everything was tried, and what the directories
// themselves bring, such as CRDs, was waited for. Faults in manifests are printed,
// and no reason to return.
func (s *Syncer) Run(ctx context.Context, ready func()) error {
	if len(s.cfg.Dirs) == 0 {
		s.status.Store(&Status{Ready: true, InSync: true})
		ready()
		<-ctx.Done()
		return nil
	}
	if err := CheckDirs(s.cfg.Dirs); err != nil {
		return err
	}
	if err := s.open(ctx, s.cfg.RESTConfig); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s.watcher = newWatcher(s.cfg.notify, s.cfg.Log)
	if err := s.scanInto(s.watcher.add); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.watcher.run(ctx) })
	g.Go(func() error { return s.loop(ctx, ready) })
	return g.Wait()
}

func (s *Syncer) scanInto(watch func(dir, name string)) error {
	roots, err := absolute(s.cfg.Dirs)
	if err != nil {
		return err
	}
	exclude := slices.Clone(s.cfg.Exclude)
	if s.cfg.StateDir != "" {
		exclude = append(exclude, s.cfg.StateDir)
	}
	excluded, err := absolute(exclude)
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(excluded))
	for _, e := range excluded {
		paths = append(paths, e.abs)
	}
	s.scanner = newScanner(roots, paths, watch, s.cfg.now)
	return nil
}

// open connects to the API server and loads the inventory.
func (s *Syncer) open(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.WarningHandler = nil
	config.WarningHandlerWithContext = warningHandler{}
	if config.Timeout == 0 {
		config.Timeout = 40 * time.Second // a webhook may take 30
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("manifests: client for the API server: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("manifests: client for the API server: %w", err)
	}
	s.client = client
	s.kinds = newKinds(discover, s.cfg.now)
	s.executor = &executor{client: client, kinds: s.kinds, owners: s.cfg.StatusOwners, workers: s.cfg.workers}
	cluster, err := s.clusterID(ctx)
	if err != nil {
		return err
	}
	inv, replaced, err := loadInventory(s.cfg.StateDir, s.cfg.Sync, cluster)
	if err != nil {
		return err
	}
	if replaced {
		s.printer.line("the inventory of %s is of another cluster, and is started anew", s.cfg.StateDir)
	}
	s.inv = inv
	return nil
}

// clusterID waits for the kube-system namespace, which the API server makes
// soon after its start.
func (s *Syncer) clusterID(ctx context.Context) (string, error) {
	var id string
	err := wait.PollUntilContextCancel(ctx, soonEvery, true, func(ctx context.Context) (bool, error) {
		ns, err := s.client.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			s.cfg.Log.Debug("wait for namespace", "namespace", metav1.NamespaceSystem, "error", err)
			return false, nil
		}
		id = string(ns.UID)
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return id, nil
}

func (s *Syncer) loop(ctx context.Context, ready func()) error {
	s.started = s.cfg.now()
	nextDrift := s.started.Add(s.cfg.driftEvery)
	for {
		next := s.pass(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.ready {
			ready()
			ready = func() {}
		}
		due := nextDrift
		if !next.IsZero() && next.Before(due) {
			due = next
		}
		if s.watcher.polling != "" {
			if poll := s.cfg.now().Add(s.cfg.pollEvery); poll.Before(due) {
				due = poll
			}
		}
		woken := s.wait(ctx, due)
		if ctx.Err() != nil {
			return nil
		}
		if !woken && !s.cfg.now().Before(nextDrift) {
			s.watchDrift(ctx)
			nextDrift = s.cfg.now().Add(s.cfg.driftEvery)
		}
	}
}

// wait returns true after an event, false when due comes first.
func (s *Syncer) wait(ctx context.Context, due time.Time) bool {
	timer := time.NewTimer(max(due.Sub(s.cfg.now()), time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-s.watcher.wake:
	}
	timer.Reset(debounce)
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-s.watcher.wake:
	default:
	}
	return true
}

// pass looks at everything once, and returns when to do so again though
// nothing changes.
func (s *Syncer) pass(ctx context.Context) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := s.cfg.now()
	first := s.scanner.first
	sc := s.scanner.scan()
	s.watcher.settle()
	s.printer.polling(s.watcher.polling, s.cfg.pollEvery)
	if err := s.refresh(ctx, sc, first); err != nil {
		if ctx.Err() == nil {
			s.printer.line("cannot reach the API server, trying again: %v", err)
		}
		return s.cfg.now().Add(time.Second)
	}
	plan := makePlan(s.state(ctx, sc))
	if !sc.retry.IsZero() {
		plan.retryAt(sc.retry)
	}
	if first && plan.foreign > 0 {
		s.printer.line("%d objects of directories that this run does not have are left alone", plan.foreign)
	}
	s.printer.plan(plan)
	done, err := s.execute(ctx, plan)
	if ctx.Err() != nil {
		return time.Time{}
	}
	if err != nil {
		plan.Failed = append(plan.Failed, Fault{Message: err.Error()})
		plan.retryAt(s.cfg.now().Add(2 * time.Second))
	}
	s.remember(sc)
	next := s.after(plan, done)
	s.publish(sc, plan, done, s.cfg.now().Sub(began))
	return next
}

// refresh asks the API server for what the plan depends on.
func (s *Syncer) refresh(ctx context.Context, sc *scan, first bool) error {
	if err := s.awaitLeaving(ctx); err != nil {
		return err
	}
	var gvks []schema.GroupVersionKind
	for _, source := range sc.sources {
		for _, o := range source.Objects {
			gvk := o.Unstructured.GroupVersionKind()
			if _, ok := s.kinds.get(gvk); !ok {
				gvks = append(gvks, gvk)
			}
		}
	}
	if err := s.kinds.ensure(ctx, gvks); err != nil {
		return err
	}
	if err := s.awaitNamespaces(ctx); err != nil {
		return err
	}
	if first {
		// A process that was killed while it applied a change has not recorded it. If
		// the change was undone meanwhile, the record would look right.
		for path, source := range sc.byPath {
			if source.Changed.After(s.inv.written) {
				s.inv.unsettle(func(r Record) bool { return r.File == path })
			}
		}
		return s.putBack(ctx, func(Record) bool { return true })
	}
	if len(sc.saved) == 0 {
		return nil
	}
	hashes := map[Key]string{}
	for path := range sc.saved {
		for _, o := range sc.byPath[path].Objects {
			gvk := o.Unstructured.GroupVersionKind()
			served, known := s.kinds.get(gvk)
			hashes[scoped(place{object: o, key: o.key(), kind: served, known: known})] = o.Hash
		}
	}
	return s.putBack(ctx, func(r Record) bool { return sc.saved[r.File] && hashes[r.Key] == r.Hash })
}

// awaitNamespaces makes those objects due again whose namespace has appeared.
func (s *Syncer) awaitNamespaces(ctx context.Context) error {
	exists := map[string]bool{}
	now := s.cfg.now()
	for key, failed := range s.failures {
		if failed.namespace == "" || now.Before(failed.next) {
			continue
		}
		there, asked := exists[failed.namespace]
		if !asked {
			var err error
			if there, err = s.namespaceExists(ctx, failed.namespace); err != nil {
				return err
			}
			exists[failed.namespace] = there
		}
		if there {
			delete(s.failures, key)
			continue
		}
		failed.next = now.Add(laterEvery)
		s.failures[key] = failed
	}
	return nil
}

func (s *Syncer) namespaceExists(ctx context.Context, name string) (bool, error) {
	ns, err := s.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for namespace %s: %w", name, err)
	}
	return ns.DeletionTimestamp == nil, nil
}

func (s *Syncer) state(ctx context.Context, sc *scan) state {
	words := map[schema.GroupVersionKind]string{}
	return state{
		now: s.cfg.now(), sources: sc.sources, faults: sc.faults,
		records: s.inv.records, failures: s.failures,
		kind: s.kinds.get,
		unknown: func(gvk schema.GroupVersionKind) string {
			if words[gvk] == "" {
				words[gvk] = s.kinds.unknown(ctx, gvk)
			}
			return words[gvk]
		},
		foreign: func(path string) bool { return !sc.inRoots(path) },
		held: func(path string) string {
			switch {
			case sc.isUnread(path):
				return "its file cannot be seen now"
			case !s.cfg.PruneEmpty && sc.isFilling(path):
				return "its directory was empty, and is still changing"
			}
			return ""
		},
		empty: func(path string) string {
			if s.cfg.PruneEmpty {
				return ""
			}
			return sc.emptyPlace(path)
		},
		changed: sc.changed, leaving: s.isLeaving, base: s.base, check: s.cfg.Check, fieldLine: fieldLine,
	}
}

// remember drops what nothing asks for any more.
func (s *Syncer) remember(sc *scan) {
	needed := map[string]bool{}
	for _, r := range s.inv.records {
		needed[r.File] = true
	}
	s.scanner.forget(needed)
	s.shown = map[Key]Fault{}
	for _, source := range sc.sources {
		for _, o := range source.Objects {
			served, known := s.kinds.get(o.Unstructured.GroupVersionKind())
			s.shown[scoped(place{object: o, key: o.key(), kind: served, known: known})] = Fault{File: source.Shown, Line: o.Line}
		}
	}
	for key := range s.failures {
		_, wanted := s.shown[key]
		_, recorded := s.inv.records[key]
		if !wanted && !recorded {
			delete(s.failures, key)
		}
	}
	for _, key := range slices.Collect(maps.Keys(s.drift)) {
		if _, recorded := s.inv.records[key]; !recorded {
			delete(s.drift, key)
		}
	}
}
