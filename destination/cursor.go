package destination

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// newZoneSet returns the views of the zone of each node, "" for nodes that are
// not there or have none.
func newZoneSet(g *view.Graph) *view.Set[string, string] {
	return view.NewSet(g, "destination/zones", func(r *view.Reader, node string, _ *string) string {
		if n, ok := state.Get(r.Reader, state.Nodes, "", node); ok {
			return n.Labels[corev1.LabelTopologyZone]
		}
		return ""
	}, func(a, b string) bool { return a == b })
}

// cursor is one stream's place in the snapshots of a Service port.
//
// A client shares a view with all clients of the same key, and the key holds
// the client's node and zone only while they matter. Whether they do is known
// from the snapshot itself, so that the cursor moves to another view when it
// finds a snapshot of a key that is not the right one any more.
type cursor struct {
	views *clusterViews
	group *group
	// zone follows the zone of the client's node; nil if it has told none.
	zone *view.View[string, string]
	// zoneNow is the version of zone that the key of view was made from.
	zoneNow *view.Version[string]
	view    *view.View[clientKey, *published]
	now     *view.Version[*published]
	// sent is what the client has been sent, nil at first.
	sent *snapshot
}

// newCursor returns a cursor that has sent nothing. Close it. It is a value, so
// that a stream can hold it on its stack.
func (s *Server) newCursor(views *clusterViews, port portKey, hostname, node string) cursor {
	c := cursor{views: views}
	key := clientKey{portKey: port, hostname: hostname}
	if node != "" {
		c.zone = s.zones.Acquire(node)
		c.zoneNow = c.zone.Current()
		key.zone = c.zoneNow.Value
	}
	c.view = views.seen.Acquire(key)
	c.group = s.metrics.join(groupKey{views.cluster, port, hostname, node})
	return c
}

// advance moves to the newest snapshot of the right view and returns the way
// there, nil if there is none to go.
func (c *cursor) advance() *update {
	for {
		c.read()
		if c.now.Fault != nil {
			return nil
		}
		key := c.rightKey(c.now.Value.snapshot)
		if key == c.view.Key {
			break
		}
		next := c.views.seen.Acquire(key)
		c.view.Release()
		c.view = next
	}
	next := c.now.Value
	if next.snapshot == c.sent {
		return nil
	}
	u := next.from(c.sent)
	c.sent = next.snapshot
	c.group.observe(next.snapshot)
	return u
}

// read takes the newest versions.
func (c *cursor) read() {
	c.now = c.view.Current()
	if c.zone != nil {
		c.zoneNow = c.zone.Current()
	}
}

// wakeOn makes the stream come back when advance has something to do: there is
// a newer version, or the client's node may be in another zone.
func (c *cursor) wakeOn(step *stream.Step) {
	step.WakeOn(c.now.Superseded())
	if c.zoneNow != nil {
		step.WakeOn(c.zoneNow.Superseded())
	}
}

// rightKey is the key that the client should have, given what it sees.
func (c *cursor) rightKey(seen *snapshot) clientKey {
	key := c.view.Key
	key.node, key.zone = "", ""
	if c.zone != nil {
		if seen.local {
			key.node = c.zone.Key
		}
		if seen.zoned {
			key.zone = c.zoneNow.Value
		}
	}
	return key
}

func (c *cursor) close() {
	c.view.Release()
	if c.zone != nil {
		c.zone.Release()
	}
	c.group.leave()
}
