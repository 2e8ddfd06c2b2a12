package embedded

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events records events of a component while it runs, and drops them otherwise.
// The recorder of client-go would run from the moment it is made.
type events struct {
	client typedcorev1.EventsGetter
	// source is the component in the events' source.
	source   string
	recorder atomic.Pointer[record.EventRecorder]
}

var _ record.EventRecorder = (*events)(nil)

// Run writes events to the API server until ctx ends.
func (e *events) Run(ctx context.Context, ready func()) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: e.client.Events("")})
	var recorder record.EventRecorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: e.source})
	e.recorder.Store(&recorder)
	ready()
	<-ctx.Done()
	e.recorder.Store(nil)
	return nil
}

func (e *events) Event(object runtime.Object, kind, reason, message string) {
	if recorder := e.recorder.Load(); recorder != nil {
		(*recorder).Event(object, kind, reason, message)
	}
}

func (e *events) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	e.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	if recorder := e.recorder.Load(); recorder != nil {
		(*recorder).AnnotatedEventf(object, annotations, kind, reason, format, args...)
	}
}
