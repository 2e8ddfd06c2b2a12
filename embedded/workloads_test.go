package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestWorkloadsAwait(t *testing.T) {
	deployments := workloadKinds()[0]
	deployment := func(name string, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)},
			Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: available, AvailableReplicas: available},
		}
	}
	for _, test := range []struct {
		name string
		// lists are what each list finds, "a" for available ones and "A" for others.
		lists []string
		// events are what each watch tells, see lists; "-" is before what was deleted, "!" an error.
		events []string
		want   string
	}{
		{"none", []string{""}, nil, ""},
		{"all are available", []string{"ab"}, nil, ""},
		{"one becomes available", []string{"aB"}, []string{"b"}, ""},
		{"another appears meanwhile", []string{"A"}, []string{"Bab"}, ""},
		{"one is deleted", []string{"A"}, []string{"-a"}, ""},
		{"one does not", []string{"AB"}, []string{"b"}, "Deployment ns/a is not available"},
		{"the first by name is said", []string{"CB"}, []string{"D"}, "Deployment ns/b is not available"},
		{"it becomes unavailable again", []string{"AB"}, []string{"aAb"}, "Deployment ns/a is not available"},
		{"the watch fails", []string{"A", "a"}, []string{"!"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parse := func(letter rune) *appsv1.Deployment {
					if letter < 'a' {
						return deployment(string(letter-'A'+'a'), 0)
					}
					return deployment(string(letter), 1)
				}
				lists, watches := test.lists, test.events
				source := &cache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						list := &appsv1.DeploymentList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
						for _, letter := range lists[0] {
							list.Items = append(list.Items, *parse(letter))
						}
						lists = lists[1:]
						return list, nil
					},
					WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
						if options.ResourceVersion != "7" {
							t.Errorf("watched from version %q, not from that of the list", options.ResourceVersion)
						}
						events := watches[0]
						watches = watches[1:]
						watcher := watch.NewFakeWithChanSize(len(events), false)
						kind := watch.Modified
						for _, letter := range events {
							switch letter {
							case '-':
								kind = watch.Deleted
								continue
							case '!':
								watcher.Error(&metav1.Status{Code: 410})
								continue
							}
							watcher.Action(kind, parse(letter))
							kind = watch.Modified
						}
						context.AfterFunc(ctx, watcher.Stop)
						return watcher, nil
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				got := ""
				if err := (&rollouts{workloadKind: deployments, source: source, progressed: func() {}}).await(ctx); err != nil {
					got = err.Error()
				}
				if got != test.want {
					t.Errorf("error %q, want %q", got, test.want)
				}
			})
		})
	}
}

// A workload whose template has changed is not available while pods of the old
// one are what it counts as ready, whatever the kind.
func TestRolloutOfChangedTemplate(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "w", Generation: 2}
	stateful := func(strategy appsv1.StatefulSetUpdateStrategy, observed int64, ready, updated int32) runtime.Object {
		return &appsv1.StatefulSet{ObjectMeta: meta,
			Spec:   appsv1.StatefulSetSpec{Replicas: ptr.To[int32](40), PodManagementPolicy: appsv1.ParallelPodManagement, UpdateStrategy: strategy},
			Status: appsv1.StatefulSetStatus{ObservedGeneration: observed, Replicas: 40, ReadyReplicas: ready, UpdatedReplicas: updated, CurrentRevision: "old", UpdateRevision: "new"},
		}
	}
	partition := func(n int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To(n)}}
	}
	rolling, onDelete := partition(0), appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	deployment := func(observed int64, replicas, updated, available int32) runtime.Object {
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available}}
	}
	daemon := func(strategy appsv1.DaemonSetUpdateStrategyType, observed int64, updated, available int32) runtime.Object {
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy}},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: observed, DesiredNumberScheduled: 3, NumberReady: 3, UpdatedNumberScheduled: updated, NumberAvailable: available}}
	}
	deployments, statefulSets, daemonSets := workloadKinds()[0], workloadKinds()[1], workloadKinds()[2]
	for _, test := range []struct {
		name     string
		kind     workloadKind
		workload runtime.Object
		want     bool
	}{
		{"StatefulSet, change not seen", statefulSets, stateful(rolling, 1, 40, 40), false},
		{"StatefulSet, 5 of 40 updated, all ready", statefulSets, stateful(rolling, 2, 40, 5), false},
		{"StatefulSet, all updated, one not ready", statefulSets, stateful(rolling, 2, 39, 40), false},
		{"StatefulSet, all updated and ready", statefulSets, stateful(rolling, 2, 40, 40), true},
		{"StatefulSet, partition reached", statefulSets, stateful(partition(30), 2, 40, 10), true},
		{"StatefulSet, partition not reached", statefulSets, stateful(partition(30), 2, 40, 9), false},
		{"StatefulSet, OnDelete keeps old pods", statefulSets, stateful(onDelete, 2, 40, 0), true},
		{"StatefulSet, OnDelete, one not ready", statefulSets, stateful(onDelete, 2, 39, 0), false},
		{"Deployment, change not seen", deployments, deployment(1, 3, 3, 3), false},
		{"Deployment, not all updated", deployments, deployment(2, 4, 1, 3), false},
		{"Deployment, an old replica is left", deployments, deployment(2, 4, 3, 4), false},
		{"Deployment, one not available", deployments, deployment(2, 3, 3, 2), false},
		{"Deployment, all updated and available", deployments, deployment(2, 3, 3, 3), true},
		{"DaemonSet, change not seen", daemonSets, daemon(appsv1.RollingUpdateDaemonSetStrategyType, 1, 3, 3), false},
		{"DaemonSet, not all updated", daemonSets, daemon(appsv1.RollingUpdateDaemonSetStrategyType, 2, 1, 3), false},
		{"DaemonSet, one not available", daemonSets, daemon(appsv1.RollingUpdateDaemonSetStrategyType, 2, 3, 2), false},
		{"DaemonSet, all updated and available", daemonSets, daemon(appsv1.RollingUpdateDaemonSetStrategyType, 2, 3, 3), true},
		{"DaemonSet, OnDelete keeps old pods", daemonSets, daemon(appsv1.OnDeleteDaemonSetStrategyType, 2, 0, 3), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, complete, err := test.kind.rollout(test.workload)
			if err != nil || complete != test.want {
				t.Errorf("complete %v, want %v; %q, error %v", complete, test.want, status, err)
			}
		})
	}
}

// What goes on rolling out has time; what says the same again has not.
func TestRolloutProgress(t *testing.T) {
	var events []*appsv1.Deployment
	for updated := range int32(4) {
		events = append(events, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "slow"},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](4)},
			Status:     appsv1.DeploymentStatus{UpdatedReplicas: updated},
		})
	}
	progress := 0
	r := &rollouts{workloadKind: workloadKinds()[0], progressed: func() { progress++ }, said: map[string]bool{}, missing: map[string]metav1.Object{}}
	for _, event := range append(events, events...) {
		if err := r.note(event); err != nil {
			t.Fatal(err)
		}
	}
	if progress != len(events) {
		t.Errorf("%d times progress, want %d: what was said before is none", progress, len(events))
	}
}
