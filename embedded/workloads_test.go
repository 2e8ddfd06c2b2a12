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
)

func TestWorkloadsAwait(t *testing.T) {
	deployments := workloadKinds()[0]
	deployment := func(name string, available int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 1},
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
				if err := deployments.await(ctx, source); err != nil {
					got = err.Error()
				}
				if got != test.want {
					t.Errorf("error %q, want %q", got, test.want)
				}
			})
		})
	}
}
