package state

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// absentPoll is how long a kind that the server does not serve is left alone
// when no change of its definition is reported.
const absentPoll = 2 * time.Second

// reflect keeps one table equal to the API server until ctx ends. A kind that
// is not served reads as empty, and is watched as soon as it is served.
func (s *State) reflect(ctx context.Context, source *source, info *KindInfo) {
	sink := &sink{state: s, info: info}
	contact := &contact{ListerWatcher: source.listWatch(ctx, info), ReflectorStore: sink, say: func(err error) *problems.News {
		if err == nil {
			return s.desk(sourceWatch).say(info, "")
		}
		s.giveUpWaiting(info)
		return s.desk(sourceWatch).say(info, "", unwatched(info, err))
	}}
	defer contact.end()
	reflector := cache.NewReflectorWithOptions(contact, expected(info), contact, cache.ReflectorOptions{
		Name:            "state/" + info.Name,
		TypeDescription: info.GVR.String(),
	})
	log := s.config.Log.With("kind", info.Name, "cluster", s.config.Cluster)
	retry := newRetry()
	for ctx.Err() == nil {
		start := time.Now()
		contact.begin()
		attempt, done := source.attempt(ctx, info)
		err := reflector.ListAndWatchWithContext(attempt)
		again := attempt.Err() != nil
		done()
		if time.Since(start) > retryCap {
			// It went well for some time. A server that ends each watch at once
			// must not be asked for whole lists without a pause.
			retry = newRetry()
		}
		switch {
		case ctx.Err() != nil:
			return
		case again:
			// The API server goes by the new definition a little later than it is read here.
			sleep(ctx, absentPoll, nil)
		case err == nil:
			// The watch ended in a way that takes a new list: its version has expired, for example.
			sleep(ctx, retry.Step(), nil)
		case apierrors.IsNotFound(err):
			contact.absent()
			if sink.replaceAll(nil) {
				log.Info("kind is not served; it is watched once it is")
			}
			sleep(ctx, absentPoll, source.definitionChanged(info))
		default:
			s.watches.error(err, info)
			delay := retry.Step()
			log.Debug("will try again", "error", err, "in", delay)
			sleep(ctx, delay, nil)
		}
	}
}

// giveUpWaiting lets Run call ready without a kind of the local cluster whose list
// has failed for some time: one object that nobody can read, or a conversion
// webhook that nobody answers, must not keep all the others from being served.
// The kind does not count as listed, so that nobody writes because of what is
// missing. A linked cluster counts only with all its objects (D 3.4).
func (s *State) giveUpWaiting(info *KindInfo) {
	if s.config.Cluster == LocalCluster {
		synced := &s.synced[info.id]
		synced.unlisted.Do(func() { close(synced.given) })
	}
}

// retryCap is the longest pause before a list or watch that failed is tried again.
const retryCap = 5 * time.Second

func newRetry() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 8, Cap: retryCap}
}

func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// sink writes one kind's events into its table. Its methods are called by one
// reflector, one at a time.
type sink struct {
	state *State
	info  *KindInfo
	// absent is true while the kind is known not to be served.
	absent bool
}

var _ cache.ReflectorStore = (*sink)(nil)

func (k *sink) Add(obj any) error { return k.store(obj) }
func (k *sink) Resync() error     { return nil }

func (k *sink) Update(obj any) error {
	k.state.observeLag(k.info, obj)
	return k.store(obj)
}

func (k *sink) store(obj any) error {
	k.state.watches.event("Apply", k.info)
	key, typed, found := k.decode(obj)
	k.desk().say(k.info, key, found...).Log()
	if typed != nil {
		k.state.put(k.info.id, key, typed)
	}
	return nil
}

func (k *sink) Delete(obj any) error {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	k.state.watches.event("Delete", k.info)
	// By name, so that a version that does not decode cannot keep an older one alive.
	key, _, _ := k.decode(obj)
	k.desk().say(k.info, key).Log()
	k.state.put(k.info.id, key, nil)
	return nil
}

func (k *sink) Replace(list []any, _ string) error {
	k.state.watches.event("Restart", k.info)
	k.replaceAll(list)
	return nil
}

// replaceAll makes the table equal to list. An object of the list that does
// not decode keeps its last valid version. It returns whether the kind has
// just become absent, when list is nil.
func (k *sink) replaceAll(list []any) bool {
	objs := make(map[string]metav1.Object, len(list))
	keep := map[string]types.UID{}
	desk, wrong := k.desk(), map[string]bool{}
	for _, obj := range list {
		key, typed, found := k.decode(obj)
		if len(found) > 0 {
			desk.say(k.info, key, found...).Log()
			wrong[desk.subject(k.info, key)] = true
		}
		if typed == nil {
			keep[key] = uidOf(obj)
		} else {
			objs[key] = typed
		}
	}
	desk.table.Keep(sourceDecode, func(subject string) bool {
		return wrong[subject] || !strings.HasPrefix(subject, desk.subject(k.info, ""))
	})
	k.state.tables[k.info.id].replace(objs, keep).log()
	k.state.markSynced(k.info.id)
	first := list == nil && !k.absent
	k.absent = list == nil
	return first
}

func (k *sink) desk() desk { return k.state.desk(sourceDecode) }

// uidOf is "" for what has none.
func uidOf(obj any) types.UID {
	if raw, err := meta.Accessor(obj); err == nil {
		return raw.GetUID()
	}
	return ""
}

// decode returns obj as its kind's Go type, nil if it cannot be, and what is
// wrong with it. The key is valid in any case.
func (k *sink) decode(obj any) (key string, typed metav1.Object, found []problems.Problem) {
	var err error
	if fault := problems.Catch(func() { typed, found, err = k.convert(obj) }); fault != nil {
		err = fault
	}
	if err == nil {
		return keyOf(typed), typed, found
	}
	if raw, accessErr := meta.Accessor(obj); accessErr == nil {
		key = keyOf(raw)
	}
	old, kept := k.state.tables[k.info.id].get(key)
	kept = kept && old.GetUID() == uidOf(obj)
	return key, nil, []problems.Problem{problems.Unusable("does not decode", err, kept)}
}

func (k *sink) convert(obj any) (metav1.Object, []problems.Problem, error) {
	raw, ok := obj.(*unstructured.Unstructured)
	if !ok {
		typed, ok := obj.(kubernetesObject)
		if !ok {
			return nil, nil, fmt.Errorf("%T is no object", obj)
		}
		return readable(typed, k.info.empty)
	}
	typed := k.info.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, typed); err != nil {
		return nil, nil, err
	}
	if err := decodable(raw, typed); err != nil {
		return nil, nil, err
	}
	return typed, nil, nil
}

// newestUpdate is the time of the newest update recorded in managedFields.
func newestUpdate(obj metav1.Object) (time.Time, bool) {
	var newest time.Time
	for _, entry := range obj.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Time != nil && entry.Time.After(newest) {
			newest = entry.Time.Time
		}
	}
	return newest, !newest.IsZero()
}
