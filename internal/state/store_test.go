package state

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Snapshots answer as maps of the objects of their time would, whatever is
// written later.
func TestSnapshotsAnswerAsMaps(t *testing.T) {
	namespaces, names := []string{"", "a", "a-b", "b"}, []string{"x", "x-y", "y"}
	ips := []string{"10.0.0.1", "10.0.0.10", "10.0.0.2", "::1"}
	type answers struct {
		get   map[string]string
		list  map[string][]string
		by    map[string][]string
		all   []string
		count int
	}
	ask := func(snapshot Snapshot) answers {
		a := answers{get: map[string]string{}, list: map[string][]string{}, by: map[string][]string{}}
		r := snapshot.Reader()
		for _, namespace := range namespaces {
			for _, name := range names {
				if service, ok := Get(r, Services, namespace, name); ok {
					a.get[keyOf(service)] = strings.Join(service.Spec.ClusterIPs, " ")
				}
			}
			for service := range List(r, Services, namespace) {
				a.list[namespace] = append(a.list[namespace], keyOf(service))
			}
		}
		for _, ip := range ips {
			for service := range By(r, Services, ServicesByIP, ip) {
				a.by[ip] = append(a.by[ip], keyOf(service))
			}
		}
		for service := range All(r, Services) {
			a.all = append(a.all, keyOf(service))
		}
		a.count = len(a.all)
		return a
	}
	want := func(objects map[string]*corev1.Service) answers {
		a := answers{get: map[string]string{}, list: map[string][]string{}, by: map[string][]string{}, count: len(objects)}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			service := objects[key]
			a.get[key] = strings.Join(service.Spec.ClusterIPs, " ")
			a.list[service.Namespace] = append(a.list[service.Namespace], key)
			for _, ip := range service.Spec.ClusterIPs {
				a.by[ip] = append(a.by[ip], key)
			}
			a.all = append(a.all, key)
		}
		return a
	}
	rapid.Check(t, func(rt *rapid.T) {
		s, err := New(Config{Kinds: []*KindInfo{&Services.KindInfo}})
		if err != nil {
			rt.Fatal(err)
		}
		type moment struct {
			snapshot Snapshot
			want     answers
		}
		var moments []moment
		objects := map[string]*corev1.Service{}
		service := func() *corev1.Service {
			o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: rapid.SampledFrom(namespaces).Draw(rt, "namespace"), Name: rapid.SampledFrom(names).Draw(rt, "name"),
			}}
			o.Spec.ClusterIPs = rapid.SliceOfNDistinct(rapid.SampledFrom(ips), 0, 2, rapid.ID).Draw(rt, "ips")
			return o
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) {
				o := service()
				objects[keyOf(o)] = o
				Put(s, Services, o.DeepCopy())
			},
			"remove": func(*rapid.T) {
				o := service()
				delete(objects, keyOf(o))
				Remove(s, Services, o.Namespace, o.Name)
			},
			"replace": func(rt *rapid.T) {
				clear(objects)
				list := map[string]metav1.Object{}
				for range rapid.IntRange(0, 5).Draw(rt, "objects") {
					o := service()
					objects[keyOf(o)], list[keyOf(o)] = o, o.DeepCopy()
				}
				s.tables[Services.id].replace(list, nil)
			},
			"": func(rt *rapid.T) {
				moments = append(moments, moment{s.Snapshot(), want(objects)})
				moments = moments[max(0, len(moments)-5):]
				for n, m := range moments {
					if diff := cmp.Diff(m.want, ask(m.snapshot), cmp.AllowUnexported(answers{})); diff != "" {
						rt.Fatalf("snapshot of %d writes ago (-want +got):\n%s", len(moments)-1-n, diff)
					}
				}
				if got := s.tables[Services.id].len(); got != len(objects) {
					rt.Fatalf("%d objects are counted, want %d", got, len(objects))
				}
			},
		})
	})
}
