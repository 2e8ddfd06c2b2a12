package destination

import (
	"slices"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// federated is one stream of a federated Service: the endpoints of all its
// members on one stream. Each member has a cursor of its own and is told of as
// if it were alone, except where two members offer the same address.
type federated struct {
	server     *Server
	target     target
	node       string
	federation *view.View[federationKey, federation]
	// members are in order of precedence.
	members []*member
	// out is what the client is to be sent.
	out []*grpcserver.Encoded
}

// member is a member of a federated Service.
type member struct {
	name memberName
	// link is nil for the local member, and for a cluster that is not linked.
	link *Link
	// relinked is closed when link may not be right any more.
	relinked <-chan struct{}
	// cursor is nil while the cluster is not linked.
	cursor *cursor
}

func (s *Server) newFederated(target target, node string) *federated {
	return &federated{
		server: s, target: target, node: node,
		federation: s.members.Acquire(federationKey{target.namespace, target.service}),
	}
}

// Next implements stream.Source. The stream ends when the Service is a
// federated one no longer (D87).
func (f *federated) Next() (step stream.Step) {
	now := f.federation.Current()
	step.WakeOn(now.Superseded())
	if step.Fault = now.Fault; now.Fault != nil {
		return step
	}
	if !now.Value.exists {
		return stream.Step{Gone: true}
	}
	f.arrange(now.Value.members)
	for _, m := range f.members {
		f.advanceMember(m)
	}
	step.Messages, f.out = f.out, nil
	for _, m := range f.members {
		step.WakeOn(m.relinked)
		if m.cursor != nil {
			m.cursor.wakeOn(&step)
		}
	}
	return step
}

// arrange brings the members in line with names: remote ones come before
// others go, so that there is no gap; then the local one changes (D84, D85).
func (f *federated) arrange(names []memberName) {
	for _, local := range []bool{false, true} {
		if local {
			f.drop(names, local)
		}
		for _, name := range names {
			if name.local == local {
				f.add(name)
			}
		}
		if !local {
			f.drop(names, local)
		}
	}
}

// add subscribes to a member that is new.
func (f *federated) add(name memberName) {
	i, known := slices.BinarySearchFunc(f.members, name, func(m *member, name memberName) int { return m.name.compare(name) })
	if known {
		return
	}
	m := &member{name: name}
	f.members = slices.Insert(f.members, i, m)
	f.advanceMember(m)
}

// drop unsubscribes from members, local or remote, that names does not list,
// and takes back what only they offer.
func (f *federated) drop(names []memberName, local bool) {
	for i := 0; i < len(f.members); i++ {
		m := f.members[i]
		if m.name.local != local || slices.Contains(names, m.name) {
			continue
		}
		f.members = slices.Delete(f.members, i, i+1)
		i--
		f.withdraw(m)
	}
}

// withdraw takes back what the member has sent and closes its cursor.
func (f *federated) withdraw(m *member) {
	if m.cursor == nil {
		return
	}
	sent := m.cursor.sent
	m.cursor.close()
	m.cursor, m.link = nil, nil
	if sent == nil || len(sent.list) == 0 {
		return
	}
	u := &update{removed: sent.list}
	u.messages = sent.encode(nil, u.removed)
	f.deliver(m, sent, u)
}

// advanceMember sends what is new of a member. Its cluster may have been
// linked or unlinked since.
func (f *federated) advanceMember(m *member) {
	views := f.server.local
	if !m.name.local {
		var link *Link
		if link, m.relinked = f.server.links.Lookup(m.name.cluster); link != m.link {
			f.withdraw(m)
			m.link = link
		}
		if link == nil {
			return
		}
		views = f.server.viewsOf(link)
	}
	if m.cursor == nil {
		key := portKey{f.target.namespace, m.name.service, f.target.port}
		c := f.server.newCursor(views, key, f.target.hostname, f.node)
		m.cursor = &c
	}
	if u := m.cursor.advance(); u != nil {
		f.deliver(m, m.cursor.sent, u)
	}
}

// deliver sends an update of the member, which has led to snapshot s. The
// shared messages do, unless another member offers one of the addresses: then
// the client is to hold the endpoint of the member that takes precedence.
func (f *federated) deliver(m *member, s *snapshot, u *update) {
	if !f.contested(m, u) {
		f.out = append(f.out, u.messages...)
		return
	}
	merged := &update{}
	for _, e := range u.added {
		if other, _ := f.holder(m, e); other == nil || m.name.compare(other.name) < 0 {
			merged.added = append(merged.added, e)
		}
	}
	f.out = append(f.out, s.encode(merged.added, nil)...)
	for _, e := range u.removed {
		other, theirs := f.holder(m, e)
		switch {
		case other == nil:
			merged.removed = append(merged.removed, e)
		case m.name.compare(other.name) < 0:
			f.out = append(f.out, other.cursor.sent.encode([]*endpoint{theirs}, nil)...)
		}
	}
	f.out = append(f.out, s.encode(nil, merged.removed)...)
}

func (f *federated) contested(m *member, u *update) bool {
	if len(f.members) == 0 || len(f.members) == 1 && f.members[0] == m {
		return false
	}
	contested := func(e *endpoint) bool {
		other, _ := f.holder(m, e)
		return other != nil
	}
	return slices.ContainsFunc(u.added, contested) || slices.ContainsFunc(u.removed, contested)
}

// holder returns the member other than m that takes precedence for the
// endpoint's address, and what it offers there; nil if there is none.
func (f *federated) holder(m *member, e *endpoint) (*member, *endpoint) {
	for _, other := range f.members {
		if other == m || other.cursor == nil || other.cursor.sent == nil {
			continue
		}
		list := other.cursor.sent.list
		if i, found := slices.BinarySearchFunc(list, e, compareAddress); found && list[i].weighted != nil {
			return other, list[i]
		}
	}
	return nil, nil
}

func (f *federated) close() {
	f.federation.Release()
	for _, m := range f.members {
		if m.cursor != nil {
			m.cursor.close()
		}
	}
}
