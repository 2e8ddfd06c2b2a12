package view

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// A set of views holds what a map would, whatever is added and taken.
func TestNodes(t *testing.T) {
	all := []*node{{}, {}, {}, {}}
	var set nodes
	model := map[*node]struct{}{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		n := all[random.IntN(len(all))]
		if random.IntN(2) == 0 {
			set = set.with(n)
			model[n] = struct{}{}
		} else {
			set = set.without(n)
			delete(model, n)
		}
		for _, n := range all {
			if _, want := model[n]; set.has(n) != want {
				t.Fatalf("has is %v, want %v", !want, want)
			}
		}
		held := map[*node]struct{}{}
		for n := range set.all {
			if _, twice := held[n]; twice {
				t.Fatal("a view comes twice")
			}
			held[n] = struct{}{}
		}
		if !maps.Equal(held, model) || (set == nodes{}) != (len(model) == 0) {
			t.Fatalf("%d views, want %d", len(held), len(model))
		}
	}
}
