package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// question is something asked of a snapshot at some time.
type question struct {
	text string
	ask  func(*Reader) string
	// touches is whether the answer may depend on an object, which is of any kind.
	touches func(obj any) bool
	answer  string
	reader  *Reader
}

// told is whether one of the changes is about something that was read.
func (q *question) told(changes []Change) bool {
	topics, filtered := q.reader.Dependencies()
	told := false
	for _, change := range changes {
		change.Topics(func(topic Topic) {
			_, read := topics[topic]
			told = told || read
			for _, dep := range filtered {
				told = told || dep.Topic == topic && slices.ContainsFunc(slices.Collect(change.Versions()), dep.Relevant)
			}
		})
	}
	return told
}

func show[T Object](objs ...T) string {
	var all []string
	for _, obj := range objs {
		all = append(all, keyOf(obj)+"@"+obj.GetResourceVersion())
	}
	return strings.Join(all, " ")
}

// Whoever has read something is told when an object comes, changes or goes that
// the answer may depend on, and not for any other; a merged change tells of all
// the versions that a snapshot may have held.
func TestTopicsTellWhatWasRead(t *testing.T) {
	namespaces, names, ips, ports := []string{"a", "a-b", "b"}, []string{"x", "y"}, []string{"10.0.0.1", "10.0.0.10", "::1"}, []int32{1, 10}
	rapid.Check(t, func(rt *rapid.T) {
		s, err := New(Config{Kinds: []*KindInfo{&Services.KindInfo, &Pods.KindInfo, &Nodes.KindInfo}})
		if err != nil {
			rt.Fatal(err)
		}
		byColour := NewIndex(0, "colour", func(c *coloured) []string { return []string{c.colour} })
		colours := Derive(s, "coloured", Services, func(source *corev1.Service, previous *coloured) *coloured {
			switch colour := source.Labels["colour"]; {
			case colour == "none":
				return nil
			case previous != nil && previous.colour == colour:
				return previous
			default:
				return &coloured{source, colour}
			}
		}, byColour)
		m := &mirror{s.Subscribe(), map[string]any{}}
		pick := func(from []string, what string) string { return rapid.SampledFrom(from).Draw(rt, what) }
		// versions are all that objects have been since the changes were last taken;
		// here is what they are now.
		var versions []any
		here := map[string]metav1.Object{}
		wrote := func(kind *KindInfo, key string, obj metav1.Object) {
			id := kind.Name + " " + key
			if old := here[id]; old != nil {
				versions = append(versions, old)
			}
			delete(here, id)
			if obj != nil {
				here[id] = obj
				versions = append(versions, obj)
			}
		}
		// written compares what a table has at a key with what was there.
		written := func(kind *KindInfo, key string) {
			now, _ := s.Snapshot().version.tables[kind.id].objects.Get([]byte(key))
			if now != here[kind.Name+" "+key] {
				wrote(kind, key, now)
			}
		}
		version := 0
		metadata := func() metav1.ObjectMeta {
			version++
			return metav1.ObjectMeta{Namespace: pick(namespaces, "namespace"), Name: pick(names, "name"),
				ResourceVersion: fmt.Sprint(version), UID: types.UID(pick([]string{"1", "2"}, "uid"))}
		}
		isService := func(want func(*corev1.Service) bool) func(any) bool {
			return func(obj any) bool { o, ok := obj.(*corev1.Service); return ok && want(o) }
		}
		isPod := func(want func(*corev1.Pod) bool) func(any) bool {
			return func(obj any) bool { o, ok := obj.(*corev1.Pod); return ok && want(o) }
		}
		isColoured := func(want func(*coloured) bool) func(any) bool {
			return func(obj any) bool { o, ok := obj.(*coloured); return ok && want(o) }
		}
		var asked []*question
		ask := func(q question) {
			q.reader = s.Snapshot().TrackingReader()
			q.answer = q.ask(q.reader)
			asked = append(asked, &q)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put a Service": func(rt *rapid.T) {
				o := &corev1.Service{ObjectMeta: metadata()}
				o.Labels = map[string]string{"colour": pick([]string{"none", "red", "blue"}, "colour")}
				o.Spec.ClusterIPs = rapid.SliceOfNDistinct(rapid.SampledFrom(ips), 0, 2, rapid.ID).Draw(rt, "ips")
				Put(s, Services, o)
				written(&Services.KindInfo, keyOf(o))
				written(&colours.KindInfo, keyOf(o))
			},
			"put a Pod": func(rt *rapid.T) {
				o := &corev1.Pod{ObjectMeta: metadata()}
				o.Status.PodIP, o.Status.HostIP = pick(ips, "ip"), pick(ips, "host")
				o.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: rapid.SampledFrom(ports).Draw(rt, "port")}}}}
				Put(s, Pods, o)
				written(&Pods.KindInfo, keyOf(o))
			},
			"put a Node": func(rt *rapid.T) {
				o := &metav1.PartialObjectMetadata{ObjectMeta: metadata()}
				o.Namespace = ""
				Put(s, Nodes, o)
				written(&Nodes.KindInfo, keyOf(o))
			},
			"put what is there, or another that has its version": func(rt *rapid.T) {
				for o := range All(s.Snapshot().Reader(), Services) {
					again := o.DeepCopy()
					again.UID = types.UID(pick([]string{"1", "2"}, "uid"))
					Put(s, Services, again)
					if held, _ := Get(s.Snapshot().Reader(), Services, o.Namespace, o.Name); held.UID != again.UID {
						rt.Fatalf("%s stays that of UID %s, and is %s", keyOf(o), held.UID, again.UID)
					}
					written(&Services.KindInfo, keyOf(o))
				}
			},
			"remove": func(rt *rapid.T) {
				namespace, name := pick(namespaces, "namespace"), pick(names, "name")
				Remove(s, Services, namespace, name)
				Remove(s, Pods, namespace, name)
				Remove(s, Nodes, "", name)
				for _, info := range []*KindInfo{&Services.KindInfo, &Pods.KindInfo, &colours.KindInfo} {
					written(info, objectKey(namespace, name))
				}
				written(&Nodes.KindInfo, objectKey("", name))
			},
			"list Services": func(rt *rapid.T) {
				list := map[string]metav1.Object{}
				for o := range All(s.Snapshot().Reader(), Services) {
					if rapid.Bool().Draw(rt, "keep") {
						list[keyOf(o)] = o.DeepCopy()
					}
				}
				o := &corev1.Service{ObjectMeta: metadata()}
				list[keyOf(o)] = o
				s.tables[Services.id].replace(list, nil)
				for _, namespace := range namespaces {
					for _, name := range names {
						written(&Services.KindInfo, objectKey(namespace, name))
						written(&colours.KindInfo, objectKey(namespace, name))
					}
				}
			},
			"ask": func(rt *rapid.T) {
				namespace, name, ip, uid := pick(namespaces, "namespace"), pick(names, "name"), pick(ips, "ip"), types.UID(pick([]string{"1", "2"}, "uid"))
				hostPort := pick([]string{"10.0.0.1:1", "10.0.0.1:10", "10.0.0.10:1", "[::1]:1"}, "host port")
				colour := pick([]string{"red", "blue"}, "colour")
				mine := func(o *corev1.Service) bool { return o.UID == uid }
				ask(rapid.SampledFrom([]question{
					{text: "Get", ask: func(r *Reader) string { o, _ := Get(r, Services, namespace, name); return fmt.Sprintf("%p", o) },
						touches: isService(func(o *corev1.Service) bool { return o.Namespace == namespace && o.Name == name })},
					{text: "Get of a Node", ask: func(r *Reader) string { o, _ := Get(r, Nodes, "", name); return fmt.Sprintf("%p", o) },
						touches: func(obj any) bool { o, ok := obj.(*metav1.PartialObjectMetadata); return ok && o.Name == name }},
					{text: "Get of a derived object", ask: func(r *Reader) string { o, _ := Get(r, colours, namespace, name); return fmt.Sprintf("%p", o) },
						touches: isColoured(func(o *coloured) bool { return o.GetNamespace() == namespace && o.GetName() == name })},
					{text: "List", ask: func(r *Reader) string { return show(slices.Collect(List(r, Services, namespace))...) },
						touches: isService(func(o *corev1.Service) bool { return o.Namespace == namespace })},
					{text: "ListWhere", ask: func(r *Reader) string { return show(slices.Collect(ListWhere(r, Services, namespace, mine))...) },
						touches: isService(func(o *corev1.Service) bool { return o.Namespace == namespace && mine(o) })},
					{text: "All", ask: func(r *Reader) string { return show(slices.Collect(All(r, Pods))...) },
						touches: isPod(func(*corev1.Pod) bool { return true })},
					{text: "By IP", ask: func(r *Reader) string { return show(slices.Collect(By(r, Services, ServicesByIP, ip))...) },
						touches: isService(func(o *corev1.Service) bool { return slices.Contains(o.Spec.ClusterIPs, ip) })},
					{text: "By host port", ask: func(r *Reader) string { return show(slices.Collect(By(r, Pods, PodsByHostPort, hostPort))...) },
						touches: isPod(func(o *corev1.Pod) bool { return slices.Contains(podHostPorts(o), hostPort) })},
					{text: "AppendBy", ask: func(r *Reader) string { return show(AppendBy(nil, r, Pods, PodsByIP, ip)...) },
						touches: isPod(func(o *corev1.Pod) bool { return o.Status.PodIP == ip })},
					{text: "By colour", ask: func(r *Reader) string { return show(slices.Collect(By(r, colours, byColour, colour))...) },
						touches: isColoured(func(o *coloured) bool { return o.colour == colour })},
				}).Draw(rt, "question"))
			},
			"take": func(rt *rapid.T) {
				changes, _ := m.sub.Take()
				for _, q := range asked {
					told := q.told(changes)
					if now := q.ask(s.Snapshot().Reader()); now != q.answer && !told {
						rt.Fatalf("%s: nobody is told that\n%q is now\n%q", q.text, q.answer, now)
					}
					if want := slices.ContainsFunc(versions, q.touches); told != want {
						rt.Fatalf("%s: told is %v, want %v", q.text, told, want)
					}
				}
				for _, change := range changes {
					for stop := range slices.Collect(change.Versions()) {
						for range change.Versions() {
							if stop--; stop < 0 {
								break
							}
						}
					}
					id := change.Kind.Name + " " + change.Key
					if m.known[id] != change.Old || change.New != any(here[id]) && (change.New != nil || here[id] != nil) {
						rt.Fatalf("%s went from %v to %v, and is told to have gone from %v to %v", id, m.known[id], here[id], change.Old, change.New)
					}
					if m.known[id] = change.New; change.New == nil {
						delete(m.known, id)
					}
				}
				if len(m.known) != len(here) {
					rt.Fatalf("%d objects are told, want %d", len(m.known), len(here))
				}
				asked, versions = nil, nil
			},
		})
	})
}

// What a subscription gives away is the way from one snapshot to the next one,
// no less and no more, whoever writes meanwhile.
func TestTakeLeadsToItsSnapshot(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Services.KindInfo, &Pods.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe()
	const writes = 500
	var writers sync.WaitGroup
	for _, put := range []func(metav1.ObjectMeta){
		func(m metav1.ObjectMeta) { Put(s, Services, &corev1.Service{ObjectMeta: m}) },
		func(m metav1.ObjectMeta) { Put(s, Pods, &corev1.Pod{ObjectMeta: m}) },
	} {
		writers.Go(func() {
			for i := range writes {
				put(metav1.ObjectMeta{Namespace: "ns", Name: strconv.Itoa(i % 7), ResourceVersion: strconv.Itoa(i + 1)})
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	known := map[string]string{}
	take := func() {
		changes, snapshot := sub.Take()
		if len(changes) == 0 {
			return
		}
		for _, change := range changes {
			known[change.Kind.Name+" "+change.Key] = change.New.(metav1.Object).GetResourceVersion()
		}
		there := map[string]string{}
		for service := range All(snapshot.Reader(), Services) {
			there[Services.Name+" "+keyOf(service)] = service.ResourceVersion
		}
		for pod := range All(snapshot.Reader(), Pods) {
			there[Pods.Name+" "+keyOf(pod)] = pod.ResourceVersion
		}
		if !maps.Equal(known, there) {
			t.Fatalf("the changes up to revision %d lead to %v, and the snapshot has %v", snapshot.Revision(), known, there)
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		take()
	}
	if len(known) != 14 {
		t.Errorf("heard of %v", known)
	}
}
