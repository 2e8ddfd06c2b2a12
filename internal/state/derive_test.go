package state

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// coloured is derived from Services that carry a colour. "bad" is of no use.
type coloured struct {
	metav1.Object
	colour string
}

func TestDerivedKindFollowsItsSource(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Services.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	version := 0
	put := func(name, colour string) {
		version++
		Put(s, Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: string(rune('a' + version)), Labels: map[string]string{"colour": colour}}})
	}
	put("early", "red")
	byColour := NewIndex(0, "colour", func(c *coloured) []string { return []string{c.colour} })
	kind := Derive(s, "coloured", Services, func(source *corev1.Service, previous *coloured) *coloured {
		switch colour := source.Labels["colour"]; {
		case colour == "":
			return nil
		case colour == "bad", previous != nil && previous.colour == colour:
			return previous
		default:
			return &coloured{source, colour}
		}
	}, byColour)
	sub := s.Subscribe()
	for _, step := range []struct {
		name, colour string
		want         string
		changes      int
	}{
		{"late", "red", "early late", 2},
		{"late", "red", "early late", 1}, // the source alone
		{"late", "bad", "early late", 1}, // the last good version stays
		{"new", "bad", "early late", 1},
		{"early", "blue", "late", 2},
		{"late", "", "", 2},
	} {
		put(step.name, step.colour)
		if changes, _ := sub.Take(); len(changes) != step.changes {
			t.Errorf("%s %s: %d changes, want %d", step.name, step.colour, len(changes), step.changes)
		}
		r := s.Snapshot().TrackingReader()
		names := ""
		for c := range By(r, kind, byColour, "red") {
			names += " " + c.GetName()
		}
		if want := step.want; names != "" && names[1:] != want || names == "" && want != "" {
			t.Errorf("%s %s: red are%s, want %s", step.name, step.colour, names, want)
		}
		topics, _ := r.Dependencies()
		if keys := slices.Collect(maps.Keys(topics)); len(keys) != 1 || keys[0].kind != &kind.KindInfo {
			t.Errorf("depends on %v", keys)
		}
	}
	Remove(s, Services, "ns", "early")
	changes, _ := sub.Take()
	if len(changes) != 2 {
		t.Errorf("removal of the source: %d changes, want 2", len(changes))
	}
	if _, ok := Get(s.Snapshot().Reader(), kind, "ns", "early"); ok {
		t.Error("a derived object outlives its source")
	}
}

func TestDerivedKindOfAbsentSourceIsEmpty(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster})
	if err != nil {
		t.Fatal(err)
	}
	kind := Derive(s, "coloured", Services, func(*corev1.Service, *coloured) *coloured { return nil })
	if _, ok := Get(s.Snapshot().Reader(), kind, "ns", "x"); ok {
		t.Error("found an object of a kind that is not held")
	}
}
