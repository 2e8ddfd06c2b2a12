package inbound

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/policy/gateway"
)

// policy-inbound 4.4, 8.3 and 9: what precedes what. Each list is in order.
func TestBefore(t *testing.T) {
	const none, early, late = 0, 1, 2
	created := func(at int64) (when time.Time) {
		if at != none {
			when = time.Unix(at, 0)
		}
		return when
	}
	named := func(name string) metav1.Object { return &metav1.ObjectMeta{Name: name} }
	ordered(t, (*server).before,
		&server{Object: named("z"), serverSpec: serverSpec{created: created(none)}},
		&server{Object: named("b"), serverSpec: serverSpec{created: created(early)}},
		&server{Object: named("c"), serverSpec: serverSpec{created: created(early)}},
		&server{Object: named("a"), serverSpec: serverSpec{created: created(late)}})
	route := func(name, group, kind string, at int64) *gateway.Route {
		return &gateway.Route{Object: named(name), Group: group, Kind: kind, Inbound: &gateway.Version{Created: created(at)}}
	}
	ordered(t, gateway.CompareInbound,
		route("b", "x", "HTTPRoute", early),
		route("c", "g", "HTTPRoute", early),
		route("c", "p", "GRPCRoute", early),
		route("c", "p", "HTTPRoute", early),
		route("a", "", "", late),
		route("0", "", "", none),
		route("1", "", "", none))
	ordered(t, (*rateLimit).before,
		&rateLimit{Object: named("b"), created: created(early)},
		&rateLimit{Object: named("c"), created: created(early)},
		&rateLimit{Object: named("a"), created: created(late)},
		&rateLimit{Object: named("0"), created: created(none)},
		&rateLimit{Object: named("1"), created: created(none)})
}

func ordered[T any](t *testing.T, before func(T, T) int, list ...T) {
	t.Helper()
	for i, a := range list {
		for j, b := range list {
			got := before(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%T: %d compared with %d is %d", a, i, j, got)
			}
		}
	}
}
