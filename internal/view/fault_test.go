package view_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// A function that panics at one object concerns the views that read it: they
// keep their last version, or have none, the table of problems says why, and
// all is right again once the object is mended. Others go on.
func TestFaultConcernsOneView(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	same := func(a, b string) bool { return a == b }
	colours := view.NewSet(g, "colours", func(r *view.Reader, name string, _ *string) string {
		service, ok := state.Get(r.Reader, state.Services, "ns", name)
		if ok && service.Labels["colour"] == "bad" {
			panic("no such colour")
		}
		if !ok {
			return ""
		}
		return service.Labels["colour"]
	}, same)
	loud := view.NewSet(g, "loud", func(r *view.Reader, name string, _ *string) string {
		return strings.ToUpper(view.Use(r, colours, name))
	}, same)
	put := func(name, colour string) {
		state.Put(st, state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"colour": colour}}})
		g.Flush()
	}
	want := func(step string, v *view.View[string, string], value string, problems ...string) {
		t.Helper()
		now := v.Current()
		if now.Value != value || (now.Fault != nil) != (value == "") {
			t.Errorf("%s: %q, fault %v, want %q", step, now.Value, now.Fault, value)
		}
		var found []string
		for _, p := range st.Problems().List() {
			found = append(found, p.Source+": "+p.String())
		}
		if len(found) != len(problems) {
			t.Fatalf("%s: problems %q", step, found)
		}
		for i, p := range problems {
			parts := strings.Split(p, "…")
			if !strings.HasPrefix(found[i], parts[0]) || !strings.HasSuffix(found[i], parts[1]) {
				t.Errorf("%s: problem %q, want %q", step, found[i], p)
			}
		}
	}

	put("a", "red")
	put("b", "green")
	a, b := loud.Acquire("a"), loud.Acquire("b")
	want("at first", a, "RED")
	red := a.Current()
	put("a", "bad")
	kept := "colours: Service ns/a: a fault of linkerd-lite, please report it: no such colour (at fault_test.go:…in the view colours of a; those who follow it keep its last version"
	want("a is bad", a, "RED", kept)
	if a.Current() != red {
		t.Error("told of a fault")
	}
	put("b", "blue")
	want("b changes", b, "BLUE", kept)
	put("a", "yellow")
	want("a is mended", a, "YELLOW")
	if cause := a.Current().Cause; cause == nil || cause.String() != "Service ns/a" || a.Current().Revision != st.Snapshot().Revision() {
		t.Errorf("version %+v of cause %v", a.Current(), cause)
	}

	put("c", "bad")
	c := loud.Acquire("c")
	want("c is bad from the start", c, "",
		"colours: view colours c: a fault of linkerd-lite…calls that need it end with UNAVAILABLE",
		"loud: view loud c: a fault of linkerd-lite…calls that need it end with UNAVAILABLE")
	waiting := c.Current()
	put("c", "white")
	want("c is mended", c, "WHITE")
	select {
	case <-waiting.Superseded():
	default:
		t.Error("nobody is told that c has a value")
	}
	put("c", "bad")
	for _, v := range []*view.View[string, string]{a, b, c} {
		v.Release()
	}
	if found := st.Problems().List(); len(found) > 0 || g.Size() != 0 {
		t.Errorf("after the last view: problems %v, %d topics", found, g.Size())
	}
}

// A predicate that panics leaves the decision to the view.
func TestFaultOfAPredicate(t *testing.T) {
	st := newState(t)
	g := view.NewGraph(st)
	set := view.NewSet(g, "names", func(r *view.Reader, ns string, _ *string) string {
		names := ""
		for service := range state.ListWhere(r.Reader, state.Services, ns, func(s *corev1.Service) bool { return s.Spec.Ports[0].Port > 0 }) {
			names += service.Name
		}
		return names
	}, func(a, b string) bool { return a == b })
	put := func(name string, ports ...corev1.ServicePort) {
		state.Put(st, state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.ServiceSpec{Ports: ports}})
		g.Flush()
	}
	v := set.Acquire("ns")
	defer v.Release()
	put("a", corev1.ServicePort{Port: 1})
	put("b")
	if got := v.Current().Value; got != "a" || len(st.Problems().List()) != 1 {
		t.Errorf("%q, problems %v", got, st.Problems().List())
	}
	put("b", corev1.ServicePort{Port: 1})
	if got := v.Current().Value; got != "ab" || len(st.Problems().List()) != 0 {
		t.Errorf("mended: %q, problems %v", got, st.Problems().List())
	}
}
