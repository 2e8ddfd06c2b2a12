package embedded

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// invalidUTF8 stands for bytes of its length that are no text. JSON made by a program cannot have them, and what is
// in the store can.
const invalidUTF8 = "\u0001no-text\u0001"

// spoil replaces what stands for bytes that are no text.
func spoil(stored []byte) []byte {
	stored = bytes.ReplaceAll(stored, []byte(`\u0001no-text\u0001`), []byte("\xff\xfeno-text\xc3\x28"))
	return bytes.ReplaceAll(stored, []byte(invalidUTF8), []byte("\xffno-text\xfe"))
}

// mutator makes objects that nobody would write.
type mutator struct{ *rand.Rand }

var (
	hostileTexts = []string{
		"", " ", "*", ".", "..", "/", "-", "%", "\x00", "\n", "\x1b[31m", "\u202e", invalidUTF8, "a/b/c", "a.b.c.d.e.f", "*.*", "_", "ü", "💥",
		"0", "-1", "65535", "65536", "99999999999999999999", "1e9999", "NaN", "Inf", "0x10", "null", "true", "{}", "[]",
		"1.2.3.4", "::1", "fe80::1%eth0", "0.0.0.0/0", "::/0", "1.2.3.4/33", "10.0.0.0/-1", "256.256.256.256", "::ffff:1.2.3.4",
		"10s", "-10s", "1h1h", "9999999999h", "1ns", "(", "(a+)+$", "[", "a{1000}{1000}", "^.*$", "\\", "?P<", "GET", "get", "http://", "spiffe://",
		"web", "default", "linkerd", "Service", "Server", "policy.linkerd.io", "core", "TCP", "UDP", "SCTP", "all-unauthenticated", "disabled", "enabled",
		strings.Repeat("x", 300), strings.Repeat("a.", 130), strings.Repeat("9", 400), strings.Repeat("(", 2000),
	}
	hostileIntegers = []int64{0, 1, -1, 2, 80, 8080, 65535, 65536, math.MaxInt32, math.MinInt32}
	hostileNumbers  = []any{int64(math.MaxInt64), int64(math.MinInt64), 0.5, -0.5, 1e300, 5e-324}
)

func pick[T any](m *mutator, from []T) T { return from[m.IntN(len(from))] }

// fixed are fields by which the store itself finds an object, and those that have a notation of
// their own, without which an object of a built-in kind cannot be read at all.
var fixed = []string{
	"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "generation", "managedFields", "selfLink",
	"creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastProbeTime", "startTime", "startedAt", "finishedAt", "time",
	"resources", "limits", "requests", "data", "divisor", "sizeLimit", "capacity", "allocatable",
}

// place is a value in an object: set replaces it, remove drops it.
type place struct {
	value  any
	set    func(any)
	remove func()
}

// places lists those below value. In metadata of any kind, and everywhere in a built-in one, fixed fields stay.
func places(value any, typed, metadata bool, to []place) []place {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if (typed || metadata) && slices.Contains(fixed, key) {
				continue
			}
			to = append(to, place{v[key], func(x any) { v[key] = x }, func() { delete(v, key) }})
			to = places(v[key], typed, metadata, to)
		}
	case []any:
		for i := range v {
			to = append(to, place{v[i], func(x any) { v[i] = x }, func() { v[i] = v[len(v)-1] }})
			to = places(v[i], typed, metadata, to)
		}
	}
	return to
}

// mutate returns an object with up to four changes. Those of built-in kinds keep the type of each
// field, as others could not be read.
func (m *mutator) mutate(base map[string]any, typed bool) map[string]any {
	object := runtime.DeepCopyJSON(base)
	for range 1 + m.IntN(4) {
		var all []place
		for _, part := range []string{"metadata", "spec", "status", "endpoints", "ports", "addressType", "subsets"} {
			value, has := object[part]
			if !has {
				continue
			}
			if part != "metadata" {
				all = append(all, place{value, func(x any) { object[part] = x }, func() { delete(object, part) }})
			}
			all = places(value, typed || part == "metadata", part == "metadata", all)
		}
		if len(all) == 0 {
			return object
		}
		p := pick(m, all)
		if !typed && m.IntN(3) == 0 {
			p.set(m.anything(0))
			continue
		}
		m.change(p, typed)
	}
	return object
}

// change replaces a value by one of its type.
func (m *mutator) change(p place, typed bool) {
	if m.IntN(8) == 0 {
		p.remove()
		return
	}
	switch v := p.value.(type) {
	case string:
		p.set(pick(m, hostileTexts))
	case bool:
		p.set(!v)
	case int64, float64:
		p.set(pick(m, hostileIntegers))
	case []any:
		switch m.IntN(4) {
		case 0:
			p.set([]any{})
		case 1:
			p.set(slices.Repeat(v, 1+m.IntN(5)))
		case 2:
			p.set(slices.Repeat(v, 200))
		default:
			m.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		}
	case map[string]any:
		switch {
		case m.IntN(2) == 0:
			p.set(map[string]any{})
		case !typed:
			v[pick(m, hostileTexts)] = m.anything(0)
		}
	case nil:
		if !typed {
			p.set(m.anything(0))
		}
	}
}

// anything is any JSON value, up to four levels deep.
func (m *mutator) anything(depth int) any {
	switch n := m.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return m.IntN(2) == 0
	case n == 2:
		return pick(m, hostileIntegers)
	case n == 3:
		return pick(m, hostileNumbers)
	case n < 6 || depth > 3:
		return pick(m, hostileTexts)
	case n == 6:
		list := make([]any, m.IntN(4))
		for i := range list {
			list[i] = m.anything(depth + 1)
		}
		return list
	default:
		object := map[string]any{}
		for range m.IntN(4) {
			object[pick(m, []string{"name", "kind", "group", "namespace", "port", "labels", "spec", pick(m, hostileTexts)})] = m.anything(depth + 1)
		}
		return object
	}
}
