package state

import (
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// absentPoll is how long a kind that the server does not serve is left alone
// when no change of its definition is reported.
const absentPoll = 2 * time.Second

// reflect keeps one table equal to the API server until ctx ends. A kind that
// is not served reads as empty, and is watched as soon as it is served.
func (s *State) reflect(ctx context.Context, source *source, info *KindInfo) {
	sink := &sink{state: s, info: info}
	reflector := cache.NewReflectorWithOptions(source.listWatch(ctx, info), expected(info), sink, cache.ReflectorOptions{
		Name:            "state/" + info.Name,
		TypeDescription: info.GVR.String(),
	})
	log := s.config.Log.With("kind", info.Name, "cluster", s.config.Cluster)
	retry := newRetry()
	for ctx.Err() == nil {
		start := time.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		if time.Since(start) > retryCap {
			// It went well for some time. A server that ends each watch at once
			// must not be asked for whole lists without a pause.
			retry = newRetry()
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			// The watch ended in a way that takes a new list: its version has expired, for example.
			sleep(ctx, retry.Step(), nil)
		case apierrors.IsNotFound(err):
			if sink.replaceAll(nil) {
				log.Info("kind is not served; it is watched once it is")
			}
			sleep(ctx, absentPoll, source.definitionChanged(info))
		default:
			s.watches.error(err, info)
			delay := retry.Step()
			log.Warn("cannot list or watch, will try again", "error", err, "in", delay)
			sleep(ctx, delay, nil)
		}
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
	// rejected are the objects that do not decode, and why.
	rejected map[string]string
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
	key, typed, err := k.decode(obj)
	if err != nil {
		k.reject(key, err)
		return nil
	}
	delete(k.rejected, key)
	k.state.put(k.info.id, key, typed)
	return nil
}

func (k *sink) Delete(obj any) error {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("delete of %s: %w", k.info.Name, err)
	}
	k.state.watches.event("Delete", k.info)
	// By name, so that a version that does not decode cannot keep an older one alive.
	delete(k.rejected, keyOf(accessor))
	k.state.put(k.info.id, keyOf(accessor), nil)
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
	for _, obj := range list {
		key, typed, err := k.decode(obj)
		if err != nil {
			k.reject(key, err)
			if raw, err := meta.Accessor(obj); err == nil {
				keep[key] = raw.GetUID()
			}
			continue
		}
		objs[key] = typed
	}
	maps.DeleteFunc(k.rejected, func(key, _ string) bool { _, ok := keep[key]; return !ok })
	k.state.publish(k.state.tables[k.info.id].replace(objs, keep))
	k.state.markSynced(k.info.id)
	first := list == nil && !k.absent
	k.absent = list == nil
	return first
}

// reject says why an object does not decode: once, and not with every change of
// a status that others write (B69).
func (k *sink) reject(key string, err error) {
	if k.rejected[key] == err.Error() {
		return
	}
	if k.rejected == nil {
		k.rejected = map[string]string{}
	}
	k.rejected[key] = err.Error()
	k.state.config.Log.Warn("object does not decode; its last valid version stays in force",
		"kind", k.info.GVK.Kind, "group", k.info.GVK.Group, "object", key, "error", err)
}

// decode returns obj as its kind's Go type. The key is valid also with an error.
func (k *sink) decode(obj any) (string, metav1.Object, error) {
	raw, ok := obj.(*unstructured.Unstructured)
	if !ok {
		typed, err := meta.Accessor(obj)
		if err != nil {
			return "", nil, err
		}
		return keyOf(typed), typed, nil
	}
	key := keyOf(raw)
	typed := k.info.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, typed); err != nil {
		return key, nil, err
	}
	if err := decodable(typed); err != nil {
		return key, nil, err
	}
	return key, typed, nil
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
