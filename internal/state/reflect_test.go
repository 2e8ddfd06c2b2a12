package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const serversPath = "/apis/policy.linkerd.io/v1beta3/servers"

// mirror is what someone knows who has only been told changes.
type mirror struct {
	sub   *Subscription
	known map[string]any
}

// follow takes changes, each of which must begin where the last one ended.
func (m *mirror) follow() error {
	changes, _ := m.sub.Take()
	for _, change := range changes {
		key := change.Kind.Name + " " + change.Key
		if m.known[key] != change.Old {
			return fmt.Errorf("%s was %v, and is told to have been %v", key, m.known[key], change.Old)
		}
		m.known[key] = change.New
		if change.New == nil {
			delete(m.known, key)
		}
	}
	return nil
}

// versions returns those of the objects that are known, by name.
func (m *mirror) versions() map[string]string {
	versions := map[string]string{}
	for _, obj := range m.known {
		object := obj.(metav1.Object)
		versions[object.GetName()] = object.GetResourceVersion()
	}
	return versions
}

func (r *resource) versions() map[string]string {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	versions := map[string]string{}
	if r.absent {
		return versions
	}
	for key, obj := range r.objects {
		_, name, _ := strings.Cut(key, "/")
		versions[name] = obj["metadata"].(map[string]any)["resourceVersion"].(string)
	}
	return versions
}

func heldVersions(s *State) map[string]string {
	versions := map[string]string{}
	for server := range All(s.Snapshot().Reader(), Servers) {
		versions[server.Name] = server.ResourceVersion
	}
	return versions
}

func serverSpec(port int) map[string]any {
	return map[string]any{"spec": map[string]any{"podSelector": map[string]any{}, "port": port}}
}

// Whatever becomes of watches, history, definition and the server itself, the
// table is soon what the server has, and the changes add up to it.
func TestReflectFollows(t *testing.T) {
	steps := []string{"put", "put", "put", "remove", "pass", "pass", "bookmark", "compact", "close", "expire", "break", "undefine", "define", "refuse", "accept"}
	rapid.Check(t, func(rt *rapid.T) {
		streams := rapid.Bool().Draw(rt, "streams")
		noDefinitions := rapid.Bool().Draw(rt, "definitions are hidden")
		plan := rapid.SliceOfN(rapid.SampledFrom(steps), 1, 30).Draw(rt, "steps")
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), len(plan), len(plan)).Draw(rt, "names")
		var problem string
		synctest.Test(t, func(t *testing.T) {
			server := newAPIServer()
			definitions, servers := server.serveDefinitions(), server.serveKind(&Servers.KindInfo)
			servers.streams = streams
			if noDefinitions {
				definitions.refused = http.StatusForbidden
			}
			s := runState(t, server, Config{Kinds: []*KindInfo{&Servers.KindInfo}})
			m := &mirror{s.Subscribe(), map[string]any{}}
			for i, step := range plan {
				switch step {
				case "put":
					if !servers.absent {
						servers.put("ns", names[i], serverSpec(i+1))
					}
				case "remove":
					servers.remove("ns", names[i])
				case "pass":
					time.Sleep(time.Duration(i%3) * 700 * time.Millisecond)
					synctest.Wait()
				case "bookmark":
					servers.bookmark()
				case "compact":
					servers.compact()
				case "close":
					servers.end(0)
				case "expire":
					servers.compact()
					servers.end(http.StatusGone)
				case "break":
					servers.end(http.StatusInternalServerError)
				case "undefine":
					servers.remove("", "")
					definitions.remove("", "servers.policy.linkerd.io")
					servers.set(func() { servers.absent = true })
					servers.end(0)
				case "define":
					servers.set(func() { servers.absent = false })
					definitions.put("", "servers.policy.linkerd.io", nil)
				case "refuse":
					servers.set(func() { servers.refused = http.StatusInternalServerError })
					servers.end(0)
				case "accept":
					servers.set(func() { servers.refused = 0 })
				}
				if err := m.follow(); err != nil {
					problem = err.Error()
					return
				}
			}
			servers.set(func() { servers.refused = 0 })
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := m.follow(); err != nil {
				problem = err.Error()
			}
			if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" {
				problem += "the table (-server +held):\n" + diff
			}
			if diff := cmp.Diff(heldVersions(s), m.versions()); diff != "" {
				problem += "the changes (-held +told):\n" + diff
			}
			if !s.Synced() {
				problem += "not synced"
			}
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// How soon a kind is read that was not served (D section 1.16, policy-inbound 2.3).
func TestDefinitionMadeAgain(t *testing.T) {
	for _, row := range []struct {
		name   string
		hidden bool
		// none is true if the kind is not served at first either.
		none bool
		// within is how long it may take.
		within time.Duration
	}{
		{"first seen", false, true, 10 * time.Millisecond},
		{"deleted and made again", false, false, 10 * time.Millisecond},
		{"definitions are not to be read, first seen", true, true, absentPoll},
		{"definitions are not to be read, made again", true, false, absentPoll},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer()
				definitions, servers := server.serveDefinitions(), server.serveKind(&Servers.KindInfo)
				if row.hidden {
					definitions.refused = http.StatusForbidden
				}
				servers.absent = row.none
				if !row.none {
					definitions.put("", "servers.policy.linkerd.io", nil)
					servers.put("ns", "a", serverSpec(1))
				}
				var log bytes.Buffer
				s := runState(t, server, Config{Kinds: []*KindInfo{&Servers.KindInfo}, Log: slog.New(slog.NewTextHandler(&log, nil))})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if !s.Synced() {
					t.Error("a kind that is not served holds up all others")
				}
				if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" {
					t.Fatalf("at first (-want +got):\n%s", diff)
				}
				servers.set(func() { servers.absent = true; clear(servers.objects) })
				servers.end(0)
				time.Sleep(10*absentPoll + 100*time.Millisecond)
				synctest.Wait()
				if n := strings.Count(log.String(), "kind is not served"); n != 1 {
					t.Errorf("it is noted %d times that the kind is not served, want once:\n%s", n, log.String())
				}
				if held := heldVersions(s); len(held) != 0 {
					t.Errorf("held of a kind that is not served: %v", held)
				}
				servers.set(func() { servers.absent = false })
				servers.put("ns", "b", serverSpec(2))
				definitions.put("", "servers.policy.linkerd.io", nil)
				time.Sleep(row.within)
				synctest.Wait()
				if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" {
					t.Errorf("after %v (-want +got):\n%s", row.within, diff)
				}
			})
		})
	}
}

// What a server that fails is asked, and how often: 50 ms later at first, then
// ever more seldom, and at once again when all went well for some time.
func TestFailingServerIsLeftAlone(t *testing.T) {
	for _, row := range []struct {
		name      string
		fail      func(*resource)
		atMost    int
		recovered time.Duration
	}{
		{"every request fails", func(r *resource) { r.set(func() { r.refused = http.StatusInternalServerError }) }, 40, 6 * time.Second},
		{"every watch ends at once", func(r *resource) { r.set(func() { r.ends = true }) }, 100, 6 * time.Second},
		{"every request is forbidden", func(r *resource) { r.set(func() { r.refused = http.StatusForbidden }) }, 40, 6 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPIServer()
				server.serveDefinitions()
				servers := server.serveKind(&Servers.KindInfo)
				row.fail(servers)
				s := runState(t, server, Config{Kinds: []*KindInfo{&Servers.KindInfo}})
				time.Sleep(time.Second)
				synctest.Wait()
				if n := len(server.asked(serversPath)); n < 8 {
					t.Errorf("asked %d times in the first second", n)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := len(server.asked(serversPath)); n > row.atMost {
					t.Errorf("asked %d times in a minute, want at most %d", n, row.atMost)
				}
				if s.Synced() != servers.ends {
					t.Errorf("synced is %v", s.Synced())
				}
				if counted := testutil.CollectAndCount(s.watches.errors); (counted == 1) == servers.ends {
					t.Errorf("errors of %d reasons are counted", counted)
				}
				if found := s.Problems().List(); (len(found) == 1) == servers.ends || len(found) > 0 && time.Since(found[0].Since) < 50*time.Second {
					t.Errorf("problems of a kind that cannot be read (F6): %v", found)
				}
				servers.set(func() { servers.refused, servers.ends = 0, false })
				servers.put("ns", "a", serverSpec(1))
				time.Sleep(row.recovered)
				synctest.Wait()
				if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" || !s.Synced() {
					t.Errorf("after it is well again (-want +got):\n%s", diff)
				}
				time.Sleep(time.Minute)
				if found := s.Problems().List(); len(found) > 0 {
					t.Errorf("problems after it is well again: %v", found)
				}
				servers.put("ns", "a", serverSpec(2))
				servers.compact()
				servers.end(http.StatusGone)
				servers.put("ns", "b", serverSpec(3))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if diff := cmp.Diff(servers.versions(), heldVersions(s)); diff != "" {
					t.Errorf("soon after the first fault in a minute (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Every kind is fetched where it is served and followed from then on, in its
// own form: what Go types are generated for as protobuf, and what needs only
// metadata as that. Secrets are those of linked clusters in the control
// plane's namespace.
func TestEveryKindIsFetched(t *testing.T) {
	for _, streams := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := newAPIServer()
			server.serveDefinitions()
			var kinds []*KindInfo
			served := map[*KindInfo]*resource{}
			for _, info := range allKinds() {
				kinds = append(kinds, info)
				served[info] = server.serveKind(info)
				served[info].streams = streams
				served[info].put("linkerd", "a", nil)
			}
			s := runState(t, server, Config{Kinds: kinds, SecretNamespace: "linkerd"})
			time.Sleep(time.Second)
			synctest.Wait()
			for _, info := range kinds {
				served[info].put("linkerd", "b", nil)
				served[info].put("linkerd", "a", nil)
				served[info].remove("linkerd", "b")
				served[info].put("linkerd", "c", nil)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for _, info := range kinds {
				want := served[info].versions()
				got := map[string]string{}
				for _, obj := range s.tables[info.id].contents().objects.All {
					got[obj.GetName()] = obj.GetResourceVersion()
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", info.Name, diff)
				}
				form := map[form]string{full: "application/vnd.kubernetes.protobuf", metadataOnly: "as=PartialObjectMetadata", custom: "application/json"}[info.form]
				if accepted := server.accepted[pathOf(info)]; !strings.Contains(accepted, form) {
					t.Errorf("%s: asked for as %q", info.Name, accepted)
				}
			}
			for _, query := range server.asked(pathOf(&Secrets.KindInfo)) {
				if got := query.Get("labelSelector"); got != "multicluster.linkerd.io/cluster-name" {
					t.Errorf("Secrets are selected by %q", got)
				}
			}
		})
	}
}

// A definition that is seen while its kind is being asked for is not forgotten,
// whether it is listed, new or changed; others wake nobody.
func TestDefinitionsWake(t *testing.T) {
	s := must(New(Config{Kinds: []*KindInfo{&Servers.KindInfo, &Pods.KindInfo}}))
	src := must(newSource(newAPIServer().config(), s))
	definition := func(name string) any {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	const mine, other = "servers.policy.linkerd.io", "servers.example.com"
	d := definitionSink{src}
	for _, row := range []struct {
		name string
		see  func() error
		want int
	}{
		{"listed", func() error { return d.Replace([]any{definition(other), definition(mine)}, "1") }, 1},
		{"new, twice", func() error { return errors.Join(d.Add(definition(mine)), d.Add(definition(mine))) }, 1},
		{"changed", func() error { return d.Update(definition(mine)) }, 1},
		{"another", func() error { return errors.Join(d.Add(definition(other)), d.Replace([]any{definition(other)}, "2")) }, 0},
	} {
		if err := row.see(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		woken := src.definitionChanged(&Servers.KindInfo)
		if len(woken) != row.want {
			t.Errorf("%s: woken %d times, want %d", row.name, len(woken), row.want)
		}
		for len(woken) > 0 {
			<-woken
		}
	}
	if src.definitionChanged(&Pods.KindInfo) != nil {
		t.Error("pods wait for a definition")
	}
}

// D section 4.1: the lag of an update is the time since the newest update by
// its managed fields; what is listed or new has none.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := must(New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Pods.KindInfo}, Registerer: registry}))
		k := &sink{state: s, info: &Pods.KindInfo}
		field := func(operation metav1.ManagedFieldsOperationType, ago time.Duration) metav1.ManagedFieldsEntry {
			return metav1.ManagedFieldsEntry{Operation: operation, Time: &metav1.Time{Time: time.Now().Add(-ago)}}
		}
		pod := func(fields ...metav1.ManagedFieldsEntry) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ManagedFields: fields}}
		}
		update := field(metav1.ManagedFieldsOperationUpdate, 3*time.Second)
		for _, err := range []error{
			k.Replace([]any{pod(update)}, "1"), k.Add(pod(update)), k.Update(pod()),
			k.Update(pod(field(metav1.ManagedFieldsOperationApply, time.Second), metav1.ManagedFieldsEntry{Operation: metav1.ManagedFieldsOperationUpdate})),
			k.Update(pod(field(metav1.ManagedFieldsOperationUpdate, time.Minute), update, field(metav1.ManagedFieldsOperationUpdate, time.Hour))),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, family := range must(registry.Gather()) {
			if family.GetName() != "pods_informer_lag_seconds" {
				continue
			}
			h := family.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 1 || h.GetSampleSum() != 3 {
				t.Errorf("%d lags, %v s in all, want one of 3 s", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
		t.Error("no lag is counted")
	})
}
