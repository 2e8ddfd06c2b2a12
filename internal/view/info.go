package view

import (
	"cmp"
	"fmt"
	"slices"
)

// Info describes a view, for people.
type Info struct {
	Family string `json:"family"`
	Key    string `json:"key"`
	// Holders are streams and other views.
	Holders int `json:"holders"`
	// Version counts the view's versions from 1; 0 for one that never had a value.
	Version uint64 `json:"version"`
	// Revision of the State from which on the version holds.
	Revision uint64 `json:"revision"`
	// Cause is the object whose change led to the version; "" for the first one.
	Cause string `json:"cause,omitempty"`
	// Reads are the questions that the view asked, and the views that it used.
	Reads []string `json:"reads,omitempty"`
	// Fault is why there is no value.
	Fault string `json:"fault,omitempty"`
}

// Views describes all views, by family and key, and says up to which revision
// of the State they are right.
func (g *Graph) Views() (views []Info, revision uint64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, set := range g.sets {
		set.each(func(n *node) { views = append(views, n.owner.info()) })
	}
	slices.SortFunc(views, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Key, b.Key))
	})
	return views, g.revision()
}

func (v *View[K, V]) info() Info {
	now := v.current.Load()
	info := Info{Holders: v.node.refs, Version: now.Number, Revision: now.Revision}
	info.Family, info.Key = v.describe()
	if now.Cause != nil {
		info.Cause = now.Cause.String()
	}
	if now.Fault != nil {
		info.Fault = now.Fault.Error()
	}
	for _, topic := range v.node.topics {
		info.Reads = append(info.Reads, topic.String())
	}
	for _, dep := range v.node.filtered {
		info.Reads = append(info.Reads, dep.Topic.String()+" that matters")
	}
	for used := range v.node.uses {
		family, key := used.owner.describe()
		info.Reads = append(info.Reads, fmt.Sprintf("view %s %s", family, key))
	}
	slices.Sort(info.Reads)
	return info
}
