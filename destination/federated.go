package destination

import (
	"reflect"
	"slices"

	"google.golang.org/grpc"
)

// federated is one stream of a federated Service: the endpoints of all its
// members on one stream. Each member has a cursor of its own and is told of as
// if it were alone, except where two members offer the same address.
type federated struct {
	server *Server
	stream grpc.ServerStream
	target target
	node   string
	// members are in order of precedence.
	members []*member
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

// federate follows a federated Service until it is one no longer, which ends
// the stream with status OK (D87).
func (s *Server) federate(stream grpc.ServerStream, key federationKey, target target, node string) error {
	f := &federated{server: s, stream: stream, target: target, node: node}
	federation := s.members.Acquire(key)
	defer federation.Release()
	defer f.close()
	for {
		now := federation.Current()
		if !now.Value.exists || !f.arrange(now.Value.members) || !f.advance() {
			return nil
		}
		if !f.wait(now.Superseded()) {
			return nil
		}
	}
}

// arrange brings the members in line with names: remote ones come before
// others go, so that there is no gap; then the local one changes (D84, D85).
// It returns false when the stream is broken.
func (f *federated) arrange(names []memberName) bool {
	unlisted := func(m *member) bool { return !slices.Contains(names, m.name) }
	for _, local := range []bool{false, true} {
		if local && !f.drop(func(m *member) bool { return m.name.local && unlisted(m) }) {
			return false
		}
		for _, name := range names {
			if name.local == local && !f.add(name) {
				return false
			}
		}
		if !local && !f.drop(func(m *member) bool { return !m.name.local && unlisted(m) }) {
			return false
		}
	}
	return true
}

// add subscribes to a member that is new.
func (f *federated) add(name memberName) bool {
	i, known := slices.BinarySearchFunc(f.members, name, func(m *member, name memberName) int { return m.name.compare(name) })
	if known {
		return true
	}
	m := &member{name: name}
	f.members = slices.Insert(f.members, i, m)
	return f.advanceMember(m)
}

// drop unsubscribes from members and takes back what only they offer.
func (f *federated) drop(which func(*member) bool) bool {
	for i := 0; i < len(f.members); i++ {
		m := f.members[i]
		if !which(m) {
			continue
		}
		f.members = slices.Delete(f.members, i, i+1)
		i--
		if !f.withdraw(m) {
			return false
		}
	}
	return true
}

// withdraw takes back what the member has sent and closes its cursor.
func (f *federated) withdraw(m *member) bool {
	if m.cursor == nil {
		return true
	}
	sent := m.cursor.sent
	m.cursor.close()
	m.cursor, m.link = nil, nil
	if sent == nil || len(sent.list) == 0 {
		return true
	}
	u := &update{removed: sent.list}
	u.messages = sent.encode(nil, u.removed)
	return f.deliver(m, sent, u)
}

func (f *federated) advance() bool {
	for _, m := range f.members {
		if !f.advanceMember(m) {
			return false
		}
	}
	return true
}

// advanceMember sends what is new of a member. Its cluster may have been
// linked or unlinked since.
func (f *federated) advanceMember(m *member) bool {
	views := f.server.local
	if !m.name.local {
		var link *Link
		if link, m.relinked = f.server.links.Lookup(m.name.cluster); link != m.link {
			if !f.withdraw(m) {
				return false
			}
			m.link = link
		}
		if link == nil {
			return true
		}
		views = f.server.viewsOf(link)
	}
	if m.cursor == nil {
		key := portKey{f.target.namespace, m.name.service, f.target.port}
		c := f.server.newCursor(views, key, f.target.hostname, f.node)
		m.cursor = &c
	}
	if u := m.cursor.advance(); u != nil {
		return f.deliver(m, m.cursor.sent, u)
	}
	return true
}

// deliver sends an update of the member, which has led to snapshot s. The
// shared messages do, unless another member offers one of the addresses: then
// the client is to hold the endpoint of the member that takes precedence.
func (f *federated) deliver(m *member, s *snapshot, u *update) bool {
	if !f.contested(m, u) {
		return send(f.stream, u)
	}
	merged := &update{}
	for _, e := range u.added {
		if other, _ := f.holder(m, e); other == nil || m.name.compare(other.name) < 0 {
			merged.added = append(merged.added, e)
		}
	}
	merged.messages = s.encode(merged.added, nil)
	for _, e := range u.removed {
		other, theirs := f.holder(m, e)
		switch {
		case other == nil:
			merged.removed = append(merged.removed, e)
		case m.name.compare(other.name) < 0:
			merged.messages = append(merged.messages, other.cursor.sent.encode([]*endpoint{theirs}, nil)...)
		}
	}
	merged.messages = append(merged.messages, s.encode(nil, merged.removed)...)
	return send(f.stream, merged)
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

// wait returns false when the stream is to end, true when something changed.
func (f *federated) wait(superseded <-chan struct{}) bool {
	ends := []<-chan struct{}{f.stream.Context().Done(), f.server.config.Stopping}
	channels := append(ends, superseded)
	for _, m := range f.members {
		channels = append(channels, m.relinked)
		if m.cursor != nil {
			channels = append(channels, m.cursor.superseded(), m.cursor.rezoned())
		}
	}
	cases := make([]reflect.SelectCase, len(channels))
	for i, c := range channels {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)}
	}
	chosen, _, _ := reflect.Select(cases)
	return chosen >= len(ends)
}

func (f *federated) close() {
	for _, m := range f.members {
		if m.cursor != nil {
			m.cursor.close()
		}
	}
}
