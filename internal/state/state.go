package state

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Config says what a State holds and where its objects come from.
type Config struct {
	// Cluster is "local" or a linked cluster's name; it labels metrics.
	Cluster string
	// Kinds to hold. Others read as empty.
	Kinds []*KindInfo
	// SecretNamespace limits Secrets to the control plane's namespace.
	SecretNamespace string
	Log             *slog.Logger
	// Problems gets what is wrong with objects; nil means a table of the State's own.
	Problems *problems.Table
	// Registerer gets cache sizes and informer lags; nil means no metrics.
	Registerer prometheus.Registerer
}

// State is the tables and those who fill them.
//
// How it works:
//  1. Each reflector writes one table, one transaction per event; a list is one transaction.
//  2. With the commit the change is handed to every subscription.
//  3. Readers take snapshots of all tables, atomically and without a lock.
//
// Changes reach a subscription in the order of the commits, together with the
// snapshot to which they lead.
type State struct {
	config     Config
	store      *store
	tables     []*table
	synced     []syncFlag
	lag        *lagMetrics
	watches    *watchMetrics
	collectors []prometheus.Collector

	mu            sync.Mutex
	subscriptions map[*Subscription]struct{}
}

type syncFlag struct {
	once sync.Once
	done chan struct{}
	// given is closed when the start no longer waits for the kind.
	unlisted sync.Once
	given    chan struct{}
}

// New builds empty tables. It does no I/O.
func New(config Config) (*State, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	s := &State{
		config:        config,
		tables:        make([]*table, kindCount),
		synced:        make([]syncFlag, kindCount),
		subscriptions: map[*Subscription]struct{}{},
		watches:       newWatchMetrics(),
	}
	s.store = newStore(kindCount, s.deliver)
	if s.config.Problems == nil {
		var err error
		if s.config.Problems, err = problems.New(problems.Config{Log: config.Log}); err != nil {
			return nil, err
		}
	}
	kinds := allKinds()
	for _, info := range config.Kinds {
		s.tables[info.id] = newTable(s.store, kinds[info.id], s.desk(sourceStore))
		s.synced[info.id].done = make(chan struct{})
		s.synced[info.id].given = make(chan struct{})
	}
	var err error
	if s.lag, err = s.registerMetrics(config.Registerer); err != nil {
		return nil, err
	}
	return s, nil
}

// Snapshot returns the present state of all tables.
func (s *State) Snapshot() Snapshot { return Snapshot{version: s.store.load()} }

// Problems is the table in which the State says what is wrong with objects, and
// in which those who read it do.
func (s *State) Problems() *problems.Table { return s.config.Problems }

// Cluster is the linked cluster that the State is of; "" for the one that is served.
func (s *State) Cluster() string {
	if s.config.Cluster == LocalCluster {
		return ""
	}
	return s.config.Cluster
}

func (s *State) desk(source string) desk { return desk{s.config.Problems, s.Cluster(), source} }

// Subscribe returns a subscription that gets every change from now on.
// Cancel it with Unsubscribe.
func (s *State) Subscribe() *Subscription {
	sub := newSubscription()
	s.mu.Lock()
	s.subscriptions[sub] = struct{}{}
	s.mu.Unlock()
	return sub
}

// Unsubscribe ends a subscription. Calling it again is harmless.
func (s *State) Unsubscribe(sub *Subscription) {
	s.mu.Lock()
	delete(s.subscriptions, sub)
	s.mu.Unlock()
}

// deliver hands the changes that led to a version to all who subscribe.
func (s *State) deliver(to *version, changes []Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.subscriptions {
		sub.add(to, changes)
	}
}

// Put stores an object, as a reflector does. The state owns obj from then on.
func Put[T Object](s *State, k *Kind[T], obj T) {
	s.put(k.id, objectKey(obj.GetNamespace(), obj.GetName()), obj)
}

// Remove forgets an object, as a reflector does.
func Remove[T Object](s *State, k *Kind[T], namespace, name string) {
	s.put(k.id, objectKey(namespace, name), nil)
}

func (s *State) put(id int, key string, obj metav1.Object) {
	s.tables[id].put(key, obj).log()
}

func (s *State) markSynced(id int) {
	s.synced[id].once.Do(func() { close(s.synced[id].done) })
}

// MarkSynced declares all kinds listed, for a State that is filled by Put.
func (s *State) MarkSynced() {
	for _, info := range s.config.Kinds {
		s.markSynced(info.id)
	}
}

// Synced is true once every kind has been listed or found not to be served.
func (s *State) Synced() bool { return s.firstUnsynced() == nil }

func (s *State) firstUnsynced() *KindInfo {
	for _, info := range s.config.Kinds {
		select {
		case <-s.synced[info.id].done:
		default:
			return info
		}
	}
	return nil
}

// WaitSynced waits until Synced. Its error names a kind that is missing.
func (s *State) WaitSynced(ctx context.Context) error {
	for _, info := range s.config.Kinds {
		select {
		case <-s.synced[info.id].done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the first list of %s: %w", info.GVR.String(), context.Cause(ctx))
		}
	}
	return nil
}

// ResourceVersion returns the version of an object that the state holds, ok
// false when it holds none, and held false when it does not hold the kind.
func (s *State) ResourceVersion(group, kind, namespace, name string) (version string, ok, held bool) {
	for _, info := range s.config.Kinds {
		if info.GVK.Group == group && info.GVK.Kind == kind {
			version, ok = s.tables[info.id].resourceVersion(objectKey(namespace, name))
			return version, ok, true
		}
	}
	return "", false, false
}

// Run watches the API server until ctx ends and returns nil then. It calls
// ready once all kinds are listed, but for those that fail to be.
func (s *State) Run(ctx context.Context, config *rest.Config, ready func()) error {
	source, err := newSource(config, s)
	if err != nil {
		return err
	}
	group, ctx := lifecycle.NewGroup(ctx)
	for _, info := range s.config.Kinds {
		group.Go("watch of "+info.Name, func() error {
			s.reflect(ctx, source, info)
			return nil
		})
	}
	group.Go("watch of definitions", func() error {
		source.watchDefinitions(ctx)
		return nil
	})
	group.Go("first lists", func() error {
		for _, info := range s.config.Kinds {
			select {
			case <-s.synced[info.id].done:
			case <-s.synced[info.id].given:
			case <-ctx.Done():
				return nil
			}
		}
		ready()
		return nil
	})
	return group.Wait()
}
