package embedded

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubectl/pkg/util/podutils"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// settleTimeout is how long it may take until something more has settled.
const settleTimeout = 10 * time.Second

// settler waits until what was applied has had its effect: workloads are
// available, slices are written, and our own State has seen both.
//
//  1. Each kind of workload is watched until all of the kind are rolled out:
//     the pods of the newest template are available, and no others are left.
//  2. Pods, Services and slices are listed once. Each of them must arrive in the
//     State, and after that an endpoint for each ready pod of a Service.
//  3. What has not arrived is looked for again whenever the State changes.
type settler struct {
	client        kubernetes.Interface
	state         *state.State
	warn          func(format string, args ...any)
	waitWorkloads bool
}

func (s *settler) run(ctx context.Context) error {
	settling, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	timer := time.AfterFunc(settleTimeout, cancel)
	defer timer.Stop()
	err := s.settle(settling, func() { timer.Reset(settleTimeout) })
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case settling.Err() != nil:
		s.warn("not settled after %s: %v%s\n", time.Since(began).Round(time.Second), err, s.reason(ctx, err))
		return nil
	default:
		// Such as an object in the store that cannot be read: no reason to end.
		s.warn("it is not known whether everything has settled: %v\n", err)
		return nil
	}
}

// settle waits until all has settled. Its error says what has not, if ctx ends
// before; progressed is called when something new has.
func (s *settler) settle(ctx context.Context, progressed func()) error {
	if s.waitWorkloads {
		for _, kind := range workloadKinds() {
			source := cache.NewListWatchFromClient(s.client.AppsV1().RESTClient(), kind.resource, metav1.NamespaceAll, fields.Everything())
			if err := (&rollouts{workloadKind: kind, source: source, progressed: progressed}).await(ctx); err != nil {
				return err
			}
		}
	}
	// Subscribed before the lists are made, so that each deletion after them is heard.
	changes := s.state.Subscribe()
	defer s.state.Unsubscribe(changes)
	expected, err := s.expectations(ctx)
	if err != nil {
		return err
	}
	return s.await(ctx, changes, expected)
}

// expectation is something that the State must come to hold.
type expectation struct {
	// missing says what is not so yet.
	missing string
	met     func(r *state.Reader, deleted map[objectName]bool) bool
}

type objectName struct{ kind, namespace, name string }

// expectations are for what there is now. That a pod or a Service must arrive
// comes before what is expected of both.
func (s *settler) expectations(ctx context.Context) ([]expectation, error) {
	options := metav1.ListOptions{}
	pods, err := s.client.CoreV1().Pods("").List(ctx, options)
	if err != nil {
		return nil, err
	}
	services, err := s.client.CoreV1().Services("").List(ctx, options)
	if err != nil {
		return nil, err
	}
	slices, err := s.client.DiscoveryV1().EndpointSlices("").List(ctx, options)
	if err != nil {
		return nil, err
	}
	var expected []expectation
	for i := range pods.Items {
		expected = append(expected, s.arrival("", "Pod", &pods.Items[i]))
	}
	for i := range services.Items {
		expected = append(expected, s.arrival("", "Service", &services.Items[i]))
	}
	for i := range slices.Items {
		expected = append(expected, s.arrival("discovery.k8s.io", "EndpointSlice", &slices.Items[i]))
	}
	if s.waitWorkloads {
		expected = append(expected, endpointsOf(services.Items, pods.Items)...)
	}
	return expected, nil
}

// await waits until all expectations are met, one after the other.
func (s *settler) await(ctx context.Context, changes *state.Subscription, expected []expectation) error {
	deleted := map[objectName]bool{}
	for {
		r := s.state.Snapshot().Reader()
		for len(expected) > 0 && expected[0].met(r, deleted) {
			expected = expected[1:]
		}
		if len(expected) == 0 {
			return nil
		}
		news, err := changes.Next(ctx)
		if err != nil {
			return errors.New(expected[0].missing)
		}
		for _, change := range news {
			for version := range change.Versions() {
				o := version.(metav1.Object)
				deleted[objectName{change.Kind.GVK.Kind, o.GetNamespace(), o.GetName()}] = change.New == nil
			}
		}
	}
}

func name(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

// arrival expects the object's version or a later one, or that it was deleted since.
func (s *settler) arrival(group, kind string, object metav1.Object) expectation {
	return expectation{kind + " " + name(object) + " has not arrived", func(_ *state.Reader, deleted map[objectName]bool) bool {
		version, ok, held := s.state.ResourceVersion(group, kind, object.GetNamespace(), object.GetName())
		if !held || deleted[objectName{kind, object.GetNamespace(), object.GetName()}] {
			return true
		}
		if !ok {
			return false
		}
		order, err := resourceversion.CompareResourceVersion(version, object.GetResourceVersion())
		return err != nil || order >= 0
	}}
}

// endpointsOf expects that Services have their ready pods, as long as both exist.
func endpointsOf(services []corev1.Service, pods []corev1.Pod) []expectation {
	var expected []expectation
	for i := range services {
		service := &services[i]
		if len(service.Spec.Selector) == 0 || service.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		selector := labels.SelectorFromValidatedSet(service.Spec.Selector)
		for j := range pods {
			pod := &pods[j]
			if pod.Namespace != service.Namespace || !hasAddress(pod) || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			expected = append(expected, expectation{
				"Service " + name(service) + " has no endpoint for pod " + pod.Name,
				func(r *state.Reader, _ map[objectName]bool) bool {
					_, podExists := state.Get(r, state.Pods, pod.Namespace, pod.Name)
					_, serviceExists := state.Get(r, state.Services, service.Namespace, service.Name)
					return !podExists || !serviceExists || hasEndpoint(r, service, pod.Name)
				},
			})
		}
	}
	return expected
}

// hasEndpoint says whether the Service has an endpoint for the pod, in a slice
// or where Endpoints are read instead of slices.
func hasEndpoint(r *state.Reader, service *corev1.Service, pod string) bool {
	for slice := range state.By(r, state.EndpointSlices, state.SlicesByService, name(service)) {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && endpoint.TargetRef.Name == pod && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) {
				return true
			}
		}
	}
	//lint:ignore SA1019 the mode is about them
	endpoints, ok := state.Get(r, state.Endpoints, service.Namespace, service.Name)
	if !ok {
		return false
	}
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			if address.TargetRef != nil && address.TargetRef.Name == pod {
				return true
			}
		}
	}
	return false
}

// hasAddress says whether a Service that selects the pod has an endpoint for it.
func hasAddress(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.PodIP != "" && podutils.IsPodReady(pod)
}

// reason says why a workload gets no Pods, if its controller knows: that of
// Deployments says so in a condition, the others only in events.
func (s *settler) reason(ctx context.Context, err error) string {
	var missing *unavailable
	if !errors.As(err, &missing) {
		return ""
	}
	if message := missing.replicaFailure(); message != "" {
		return ": " + message
	}
	events, err := s.client.CoreV1().Events(missing.object.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.uid": string(missing.object.GetUID()), "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	return ": " + events.Items[len(events.Items)-1].Message
}
