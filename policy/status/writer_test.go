package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/reconcile"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// running runs members in a bubble and returns what stops one.
func running(t *testing.T, m *member) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done, idle := make(chan error, 1), make(chan struct{})
	go func() { done <- m.Run(ctx) }()
	go func() {
		defer close(idle)
		m.graph.Run(ctx)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-idle
	}
	t.Cleanup(stop)
	return stop
}

// Conditions are written soon, and nothing is while nothing changes.
func TestIdleMeansNoWrites(t *testing.T) {
	rulebook.Covers(t, "B66")
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		defer running(t, m)()
		c.apply(mySvc, backendSvc, myEgress, adminServer, limitDoc("l", toServer))
		const routes = 500
		for i := range routes {
			kind := routeKinds[i%len(routeKinds)].kind
			c.apply(routeDoc(kind, fmt.Sprint("r", i), strings.Replace(toService, "4191", fmt.Sprint(1000+i), 1)+", "+toEgress, "{name: backend}"))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if due := m.due(); len(due) != 0 {
			t.Fatalf("%d patches are due after a second", len(due))
		}
		before := c.patched()
		if before < routes+2 || before > 2*routes+10 {
			t.Errorf("%d patches for %d objects", before, routes+2)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := c.patched() - before; got != 0 {
			t.Errorf("%d patches while idle: %v", got, c.patches[before:])
		}
		// One change is one patch for each of those it concerns.
		c.apply(strings.Replace(backendSvc, "name: backend", "name: unused", 1))
		c.remove("Service", "ns", "backend")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.patched() - before; got != routes {
			t.Errorf("%d patches after the loss of a backend of %d routes", got, routes)
		}
	})
}

// A route that is changed several times in quick succession gets one status,
// that of its last version, and one that is read and written back within that
// time meets no conflict.
func TestBurstIsOneWrite(t *testing.T) {
	rulebook.Covers(t, "G4")
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		defer running(t, m)()
		c.apply(adminServer, mySvc)
		time.Sleep(time.Second)
		version := func() any {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.objects["HTTPRoute/ns/r"]["metadata"].(map[string]any)["resourceVersion"]
		}
		for _, parents := range []string{toServer, "", toService} {
			c.apply(routeDoc("HTTPRoute", "r", parents))
			read := version()
			time.Sleep(gather / 4)
			synctest.Wait()
			if now := version(); now != read {
				t.Errorf("version %v became %v under the hands of who read it", read, now)
			}
		}
		time.Sleep(gather)
		synctest.Wait()
		if got, want := c.status("HTTPRoute", "r"), serviceEntry+isAccepted+isResolved; got != want || c.patched() != 1 {
			t.Errorf("status %q after %d patches, want %q after one", got, c.patched(), want)
		}
		// What changes nothing about the status is not followed by a patch.
		c.apply(strings.Replace(routeDoc("HTTPRoute", "r", toService), "name: r", "name: r, labels: {a: b}", 1))
		time.Sleep(time.Second)
		synctest.Wait()
		if c.patched() != 1 {
			t.Errorf("%d patches after a change that concerns no status", c.patched())
		}
	})
}

// An entry that another controller adds at the same moment is not lost.
func TestForeignEntryIsNotOverwritten(t *testing.T) {
	rulebook.Covers(t, "B66")
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
		raced := false
		c.refuse = func(name string) error {
			if !raced {
				raced = true
				c.mu.Lock()
				defer c.mu.Unlock()
				object := map[string]any{}
				for key, value := range c.objects["HTTPRoute/ns/r"] {
					object[key] = value
				}
				object["metadata"] = map[string]any{"namespace": "ns", "name": "r"}
				object["status"] = map[string]any{"parents": []any{map[string]any{"controllerName": "example.com/x", "parentRef": map[string]any{"name": "gw"}}}}
				c.store(object)
			}
			return nil
		}
		defer running(t, m)()
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := c.status("HTTPRoute", "r"), "example.com/x ///gw\n"+serverEntry+isAccepted; got != want {
			t.Errorf("status %q, want %q", got, want)
		}
		if got := m.metric(t, "resource_status_patch_api_errors_total"); got != 1 {
			t.Errorf("%v patches were refused, want 1", got)
		}
	})
}

// The metrics of policy-status 5.
func TestMetrics(t *testing.T) {
	for _, row := range []struct {
		name    string
		refused error
		want    map[string]float64
	}{
		{"P309 success", nil, map[string]float64{"patches_total": 1, "patch_api_errors_total": 0, "patch_timeouts_total": 0, "patch_duration_seconds": 1}},
		{"P309 API error", errors.New("no"), map[string]float64{"patches_total": 0, "patch_api_errors_total": 1, "patch_timeouts_total": 0, "patch_duration_seconds": 1}},
		{"P309 timeout", fmt.Errorf("patch: %w", context.DeadlineExceeded), map[string]float64{"patches_total": 0, "patch_api_errors_total": 0, "patch_timeouts_total": 1, "patch_duration_seconds": 0}},
	} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				m := c.join("lite")
				c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
				c.refuse = func(string) error { return row.refused }
				stop := running(t, m)
				time.Sleep(gather + minRetry - time.Millisecond) // until just before the second attempt
				synctest.Wait()
				row.want["patch_enqueues_total"], row.want["patch_dequeues_total"] = 1, 1
				row.want["patch_drops_total"], row.want["patch_enqueue_overflows_total"] = 0, 0
				for name, want := range row.want {
					if got := m.metric(t, "resource_status_"+name); got != want {
						t.Errorf("%s is %v, want %v", name, got, want)
					}
				}
				if warned := strings.Contains(m.log.String(), "ns/r"); warned != (row.refused != nil) {
					t.Errorf("log:\n%s", m.log)
				}
				stop()
			})
		})
	}
}

// What was refused is tried again, sooner than everything is looked at again.
func TestRefusedPatchIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
		refusals := 0
		c.refuse = func(string) error {
			if refusals++; refusals > 3 {
				return nil
			}
			return errors.New("no")
		}
		defer running(t, m)()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.status("HTTPRoute", "r"); got != serverEntry+isAccepted {
			t.Errorf("status %q after %d refusals", got, refusals)
		}
	})
}

// A status that the API server does not take is sent once for each version of
// the object, with one warning: there may be more entries than fit (B66).
func TestInvalidStatusIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		refusals, invalid := 0, true
		c.refuse = func(name string) error {
			if !invalid {
				return nil
			}
			refusals++
			return apierrors.NewInvalid(schema.GroupKind{Kind: "HTTPRoute"}, name, nil)
		}
		c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
		defer running(t, m)()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if warnings := strings.Count(m.log.String(), "ns/r"); refusals != 1 || warnings != 1 {
			t.Errorf("sent %d times, with %d warnings", refusals, warnings)
		}
		invalid = false
		c.apply(routeDoc("HTTPRoute", "r", toServer))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.status("HTTPRoute", "r"); got != serverEntry+isAccepted {
			t.Errorf("status of the next version %q", got)
		}
	})
}

// While the result of a patch is on its way here, it is not written again,
// whatever else changes; a newer version is.
func TestVersionIsPatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		m := c.join("lite")
		patches := 0
		c.hold = func() bool { patches++; return true }
		c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer+", "+toService))
		defer running(t, m)()
		for range 3 {
			c.apply(mySvc, adminServer)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		if patches != 1 {
			t.Errorf("%d patches of one version", patches)
		}
		c.apply(routeDoc("HTTPRoute", "r", toServer+", "+toService))
		time.Sleep(time.Second)
		synctest.Wait()
		if patches != 2 {
			t.Errorf("%d patches of two versions", patches)
		}
	})
}

// Of two replicas one writes; when it stops, the other takes over.
func TestOneOfTwoWrites(t *testing.T) {
	scenario(t, "P282 P310 P313", func(t *testing.T) {
		c := newCluster(t)
		a, b := c.join("a"), c.join("b")
		stopA := running(t, a)
		time.Sleep(time.Second)
		defer running(t, b)()
		c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
		time.Sleep(time.Minute)
		patches := func(m *member) float64 { return m.metric(t, "resource_status_patches_total") }
		if patches(a) != 1 || patches(b) != 0 {
			t.Fatalf("a wrote %v and b %v, want 1 and 0", patches(a), patches(b))
		}
		stopA()
		time.Sleep(5 * time.Second) // the Lease was given back
		c.apply(routeDoc("HTTPRoute", "s", toServer))
		time.Sleep(time.Second)
		if patches(a) != 1 || patches(b) != 1 {
			t.Errorf("a wrote %v and b %v, want 1 each", patches(a), patches(b))
		}
	})
}

// A holder that is gone without giving back is waited for 30 s; one that
// comes back under its own name is not.
func TestLeaseOfTheDead(t *testing.T) {
	for _, row := range []struct {
		holder string
		wait   time.Duration
	}{{"other", 30 * time.Second}, {"lite", 0}} {
		rulebook.Run(t, "P282 "+row.holder, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				m := c.join("lite")
				now, seconds := metav1.NewMicroTime(time.Now()), int32(30)
				_, err := c.leases.CoordinationV1().Leases("linkerd").Create(t.Context(), &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: linkerd.PolicyWriteLease},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &row.holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
				defer running(t, m)()
				if row.wait > 0 {
					time.Sleep(row.wait - time.Second)
					if got := c.patched(); got != 0 {
						t.Errorf("%d patches while another holds the Lease", got)
					}
				}
				time.Sleep(6 * time.Second)
				if got := c.patched(); got != 1 {
					t.Errorf("%d patches, want 1", got)
				}
			})
		})
	}
}

// The Lease has the labels, the owner and the times of policy-status 4.
func TestLease(t *testing.T) {
	for _, row := range []struct {
		name  string
		owned bool
	}{{"owned by the Deployment", true}, {"without a Deployment", false}} {
		rulebook.Run(t, row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				m := c.join("lite")
				if row.owned {
					deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "linkerd", Name: DefaultDeploymentName, UID: "u-1"}}
					if _, err := c.leases.AppsV1().Deployments("linkerd").Create(t.Context(), deployment, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				defer running(t, m)()
				time.Sleep(10 * time.Second)
				lease, err := c.leases.CoordinationV1().Leases("linkerd").Get(t.Context(), "policy-controller-write", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				labels := map[string]string{"linkerd.io/control-plane-component": "destination", "linkerd.io/control-plane-ns": "linkerd"}
				if diff := cmp.Diff(labels, lease.Labels); diff != "" {
					t.Errorf("labels (-want +got):\n%s", diff)
				}
				var owners []metav1.OwnerReference
				if row.owned {
					controller := true
					owners = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "linkerd-destination", UID: "u-1", Controller: &controller}}
				}
				if diff := cmp.Diff(owners, lease.OwnerReferences); diff != "" {
					t.Errorf("owners (-want +got):\n%s", diff)
				}
				if got := lease.Spec; *got.HolderIdentity != "lite" || *got.LeaseDurationSeconds != 30 || got.RenewTime == nil {
					t.Errorf("spec is %v", got)
				}
			})
		})
	}
}

// A Lease that cannot be prepared is made by whoever wants it, and nothing waits for it.
func TestLeaseThatCannotBePrepared(t *testing.T) {
	for _, row := range []struct{ verb, resource string }{{"get", "deployments"}, {"create", "leases"}} {
		t.Run(row.verb+" "+row.resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				m := c.join("lite")
				refusals := 0
				c.leases.PrependReactor(row.verb, row.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
					refusals++
					return refusals == 1, nil, errors.New("refused")
				})
				c.apply(adminServer, routeDoc("HTTPRoute", "r", toServer))
				defer running(t, m)()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := c.status("HTTPRoute", "r"); got != serverEntry+isAccepted {
					t.Errorf("status %q", got)
				}
				if log := m.log.String(); !strings.Contains(log, "lease not prepared") || !strings.Contains(log, "linkerd/") || !strings.Contains(log, "refused") {
					t.Errorf("log:\n%s", log)
				}
			})
		})
	}
}

// Whatever is to be written after a change is known to the views that were held
// before it.
func TestPlansFollowChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCluster(t)
		m := c.join("lite")
		held := map[reconcile.Key]*view.View[reconcile.Key, plan]{}
		pick := func(label string, options ...string) string { return rapid.SampledFrom(options).Draw(rt, label) }
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			name := pick("name", "a", "b")
			parents := strings.ReplaceAll(pick("parent", toServer, toService, toEgress, ""), pick("of", "linkerd-admin", "my-svc", "my-egress"), name)
			kind := pick("kind", "Server", "Service", "EgressNetwork", "HTTPLocalRateLimitPolicy", "policy HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute")
			if kind != "TLSRoute" && kind != "TCPRoute" && rapid.IntRange(0, 3).Draw(rt, "remove") == 0 {
				c.remove(kind, "ns", name)
			} else {
				switch kind {
				case "Server":
					c.apply(strings.Replace(adminServer, "linkerd-admin", pick("server", name, "linkerd-admin"), 1))
				case "Service":
					c.apply(strings.Replace(strings.Replace(mySvc, "my-svc", pick("service", name, "my-svc"), 1), "10.96.0.10", pick("ip", "10.96.0.10", "None"), 1))
				case "EgressNetwork":
					c.apply(egressDoc(pick("egress", name, "my-egress"), pick("networks", "{cidr: 1.0.0.0/8}", "{cidr: 10.0.0.0/8}")))
				case "HTTPLocalRateLimitPolicy":
					c.apply(limitDoc(name, strings.ReplaceAll(toServer, "linkerd-admin", pick("limits", "a", "linkerd-admin"))))
				default:
					c.apply(routeDoc(kind, name, parents, pick("backend", "{name: a}", "{group: policy.linkerd.io, kind: EgressNetwork, name: a}", "")))
				}
			}
			for range 5 {
				m.graph.Flush()
				due := m.due()
				for key, p := range due {
					if held[key] == nil {
						held[key] = m.plans.Acquire(key)
					}
					if got := held[key].Current().Value; !samePlan(got, p) {
						rt.Fatalf("the plan for %v is %+v, want %+v", key, got, p)
					}
				}
				for key, p := range due {
					if _, err := m.send(t.Context(), key, p); err != nil && !apierrors.IsConflict(err) {
						rt.Fatal(err)
					}
				}
			}
			if due := m.due(); len(due) > 0 {
				rt.Fatalf("the status does not settle: %+v", due)
			}
			m.graph.Flush()
			for key, v := range held {
				if p := v.Current().Value; !p.Empty() {
					rt.Fatalf("the plan for %v is still %+v", key, p)
				}
			}
		}
	})
}

// 1,000 routes have their status within 2 s of the last apply.
func TestThousandRoutes(t *testing.T) {
	c := newCluster(t)
	m := c.join("lite")
	defer running(t, m)()
	c.apply(mySvc, backendSvc)
	for i := range 1000 {
		c.apply(routeDoc("HTTPRoute", fmt.Sprint("r", i), toService, "{name: backend}"))
	}
	last := time.Now()
	eventually.Holds(t, "1000 routes have a status", func() bool { return c.patched() >= 1000 }, func() string { return fmt.Sprint(c.patched(), " have") })
	t.Logf("status of 1000 routes written %v after the last apply, %d patches", time.Since(last), c.patched())
	if due := m.due(); len(due) > 0 {
		t.Errorf("more is due: %d", len(due))
	}
}
