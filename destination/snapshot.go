package destination

import (
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// snapshot is what the clients of one key see. Immutable.
type snapshot struct {
	exists bool
	// local and zoned say what else the client's key should hold: see cursor.
	local, zoned bool
	// zone is the clients' zone.
	zone     string
	suffixes *[localities][]byte
	// list is in order of address, with one endpoint per address.
	list []*endpoint
}

// published is a snapshot with the messages that take a client there. They are
// made when they are needed first, and go with the version of the view; who is
// slow holds on to the snapshot alone.
type published struct {
	*snapshot

	mu sync.Mutex
	// updates leads from what a client has, nil at first, to the update from there.
	updates map[*snapshot]*update
}

// update is the way from one snapshot to another: what was added or changed,
// what is gone, and the messages that say so. Immutable.
type update struct {
	added, removed []*endpoint
	messages       []*grpcserver.Encoded
}

// from returns the update that takes a client from before, nil at first, to p.
// It is shared by all who ask.
func (p *published) from(before *snapshot) *update {
	p.mu.Lock()
	defer p.mu.Unlock()
	made, known := p.updates[before]
	if known {
		return made
	}
	made = p.compute(before)
	if p.updates == nil {
		p.updates = map[*snapshot]*update{}
	}
	p.updates[before] = made
	return made
}

func (s *snapshot) compute(before *snapshot) *update {
	u := diff(before, s)
	u.messages = s.encode(u.added, u.removed)
	return u
}

// diff compares two snapshots address by address (D section 1.11, in whose
// terms a change of an endpoint's address is an added and a removed one).
func diff(before, after *snapshot) *update {
	if before == nil {
		return &update{added: after.list}
	}
	u := &update{}
	old, new := before.list, after.list
	for len(old) > 0 || len(new) > 0 {
		order := 0
		switch {
		case len(new) == 0:
			order = -1
		case len(old) == 0:
			order = 1
		default:
			order = compareAddress(old[0], new[0])
		}
		switch {
		case order < 0:
			u.removed = append(u.removed, old[0])
			old = old[1:]
			continue
		case order > 0:
			u.added = append(u.added, new[0])
		case same(old[0], new[0], before.zone, after.zone):
		case new[0].weighted == nil:
			u.removed = append(u.removed, old[0])
		default:
			u.added = append(u.added, new[0])
		}
		new = new[1:]
		if order == 0 {
			old = old[1:]
		}
	}
	return u
}

// Field numbers of Update and what is in it.
const (
	updateAdd        = 1
	updateRemove     = 2
	setAddrs         = 1
	setMetricLabels  = 2
	weightedWeight   = 3
	weightedLabels   = 4
	mapKey           = 1
	mapValue         = 2
	localWeightScale = 10
)

// encode makes the messages of a change: what is added, then what is removed.
// Endpoints whose slices have different labels go into messages of their own.
func (s *snapshot) encode(added, removed []*endpoint) []*grpcserver.Encoded {
	var messages []*grpcserver.Encoded
	for len(added) > 0 {
		labels := added[0].labels
		var rest []*endpoint
		group := keep(added, func(e *endpoint) bool { return e.labels == labels || *e.labels == *labels })
		if len(group) < len(added) {
			rest = keep(added, func(e *endpoint) bool { return *e.labels != *labels })
		}
		messages = append(messages, grpcserver.NewEncoded(s.encodeAdd(group, labels)))
		added = rest
	}
	if body := encodeRemoved(removed); len(body) > 0 {
		messages = append(messages, grpcserver.NewEncoded(enclose(updateRemove, body)))
	}
	return messages
}

func (s *snapshot) encodeAdd(group []*endpoint, labels *setLabels) []byte {
	size := 0
	for _, e := range group {
		if e.weighted != nil {
			size += protowire.SizeTag(setAddrs) + protowire.SizeBytes(len(e.weighted)+len(s.suffix(e)))
		}
	}
	body := appendSetLabels(nil, labels)
	total := size + len(body)
	out := make([]byte, 0, protowire.SizeTag(updateAdd)+protowire.SizeBytes(total))
	out = protowire.AppendTag(out, updateAdd, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(total))
	for _, e := range group {
		if e.weighted == nil {
			continue // it counts, but nobody can be told of it (D69)
		}
		suffix := s.suffix(e)
		out = protowire.AppendTag(out, setAddrs, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(len(e.weighted)+len(suffix)))
		out = append(append(out, e.weighted...), suffix...)
	}
	return append(out, body...)
}

func (s *snapshot) suffix(e *endpoint) []byte { return s.suffixes[e.seenFrom(s.zone)] }

func appendSetLabels(b []byte, labels *setLabels) []byte {
	b = appendLabel(b, setMetricLabels, "namespace", labels.namespace)
	b = appendLabel(b, setMetricLabels, "service", labels.service)
	if labels.mirrored {
		b = appendLabel(b, setMetricLabels, "target_cluster", labels.targetCluster)
	}
	if labels.mirroredService {
		b = appendLabel(b, setMetricLabels, "target_service", labels.targetService)
		b = appendLabel(b, setMetricLabels, "target_service_namespace", labels.targetNamespace)
	}
	return b
}

// encodeRemoved is the content of an AddrSet. Addresses that do not exist on
// the wire were never added.
func encodeRemoved(removed []*endpoint) []byte {
	var body []byte
	for _, e := range removed {
		if !e.addr.IsValid() {
			continue
		}
		addr, err := proto.Marshal(tcpAddress(e.addr))
		if err != nil {
			continue // cannot happen: it has no required and no text fields
		}
		body = protowire.AppendTag(body, setAddrs, protowire.BytesType)
		body = protowire.AppendBytes(body, addr)
	}
	return body
}

func enclose(field protowire.Number, body []byte) []byte {
	out := make([]byte, 0, protowire.SizeTag(field)+protowire.SizeBytes(len(body)))
	return protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), body)
}

// clientSuffix is the part of a WeightedAddr that depends on the client's
// zone: weight and the label zone_locality (D53, D54). Protobuf lets fields
// and map entries come in any order, so that it can follow the rest and each
// endpoint is encoded once.
func clientSuffix(l locality, zoneWeights bool) []byte {
	weight := linkerd.EndpointWeight
	if zoneWeights && l == localityLocal {
		weight *= localWeightScale
	}
	b := protowire.AppendTag(nil, weightedWeight, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(weight))
	return appendLabel(b, weightedLabels, "zone_locality", l.String())
}

func appendLabel(b []byte, field protowire.Number, key, value string) []byte {
	size := protowire.SizeTag(mapKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(mapValue) + protowire.SizeBytes(len(value))
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = protowire.AppendTag(b, mapKey, protowire.BytesType)
	b = protowire.AppendString(b, key)
	b = protowire.AppendTag(b, mapValue, protowire.BytesType)
	return protowire.AppendString(b, value)
}
