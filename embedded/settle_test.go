package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

func settlePod(version string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1", ResourceVersion: version, Labels: map[string]string{"app": "web"}},
		Status:     corev1.PodStatus{PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func settleService(version string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ResourceVersion: version},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}},
	}
}

func settleSlice(version string, ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-x", ResourceVersion: version, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Endpoints: []discoveryv1.Endpoint{{
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "web-1"},
		}},
	}
}

// What is there must arrive in the State, with the endpoints that follow from it.
func TestSettlerAwaits(t *testing.T) {
	//lint:ignore SA1019 the mode is about them
	endpoints := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ResourceVersion: "9"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "web-1"}}}}},
	}
	type step struct {
		change func(*state.State)
		// want is what is waited for afterwards, "" once all has settled.
		want string
	}
	pod := func(version, want string) step {
		return step{func(s *state.State) { state.Put(s, state.Pods, settlePod(version)) }, want}
	}
	service := func(want string) step {
		return step{func(s *state.State) { state.Put(s, state.Services, settleService("6")) }, want}
	}
	slice := func(version string, ready bool, want string) step {
		return step{func(s *state.State) { state.Put(s, state.EndpointSlices, settleSlice(version, ready)) }, want}
	}
	const (
		noPod      = "Pod ns/web-1 has not arrived"
		noService  = "Service ns/web has not arrived"
		noEndpoint = "Service ns/web has no endpoint for pod web-1"
	)
	for _, test := range []struct {
		name          string
		withEndpoints bool
		steps         []step
	}{
		{"in order", false, []step{pod("5", noService), service(noEndpoint), slice("7", true, "")}},
		{"in reverse", false, []step{slice("7", true, noPod), service(noPod), pod("5", "")}},
		{"an older version", false, []step{service(noPod), slice("7", true, noPod), pod("4", noPod), pod("5", "")}},
		{"a newer version", false, []step{service(noPod), slice("7", true, noPod), pod("8", "")}},
		{"an endpoint that is not ready", false, []step{pod("5", noService), service(noEndpoint), slice("7", false, noEndpoint), slice("8", true, "")}},
		{"a pod that was deleted", false, []step{service(noPod), pod("4", noPod), {func(s *state.State) { state.Remove(s, state.Pods, "ns", "web-1") }, ""}}},
		{"a Service that was deleted", false, []step{pod("5", noService), service(noEndpoint), {func(s *state.State) { state.Remove(s, state.Services, "ns", "web") }, ""}}},
		{"Endpoints instead of slices", true, []step{pod("5", noService), service(noEndpoint), {func(s *state.State) { state.Put(s, state.Endpoints, endpoints) }, ""}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := state.New(state.Config{Kinds: state.LocalKinds(!test.withEndpoints)})
				if err != nil {
					t.Fatal(err)
				}
				s := &settler{state: st}
				expected := append([]expectation{s.arrival("", "Pod", settlePod("5")), s.arrival("", "Service", settleService("6"))},
					endpointsOf([]corev1.Service{*settleService("6")}, []corev1.Pod{*settlePod("5")})...)
				changes := st.Subscribe()
				for n, step := range test.steps {
					step.change(st)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					// What was met is met for good: the next step starts where this one ended.
					got := ""
					if err := s.await(ctx, changes, expected); err != nil {
						got = err.Error()
					}
					cancel()
					if got != step.want {
						t.Errorf("step %d: waits for %q, want %q", n, got, step.want)
					}
				}
			})
		})
	}
}
