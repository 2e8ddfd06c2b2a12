package kubelet

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// quarantine is how long an address rests after its pod is gone, so that a
// client which still holds it does not talk to another pod.
const quarantine = 60 * time.Second

// addresses hands out the addresses of the pod ranges, one of each range per
// holder.
//
//  1. A range is walked upwards from where the last address was given, so an
//     address comes back as late as possible; the walk wraps around.
//  2. What a pod's status holds is taken, whoever wrote it (hold).
//  3. Released addresses are skipped for the length of the quarantine.
//  4. Nodes take theirs from the end of the range, downwards.
//  5. Every step goes to the ledger before it is seen by anyone.
type addresses struct {
	now    func() time.Time
	ledger *ledger

	mu     sync.Mutex
	pools  []*pool
	byUser map[types.UID][]netip.Addr
}

// pool is one range.
type pool struct {
	prefix netip.Prefix
	// first and last address that may be given away.
	first, last netip.Addr
	cursor      netip.Addr
	// users counts the holders of an address: two manifests may claim the same one.
	users    map[netip.Addr]int
	released map[netip.Addr]time.Time
}

func newAddresses(ranges []netip.Prefix, l *ledger, now func() time.Time) *addresses {
	a := &addresses{now: now, ledger: l, byUser: map[types.UID][]netip.Addr{}}
	for _, prefix := range ranges {
		prefix = prefix.Masked()
		p := &pool{prefix: prefix, users: map[netip.Addr]int{}, released: map[netip.Addr]time.Time{}}
		// Left out as everywhere: the network's own address, the first one
		// after it (gateways), and the last of IPv4 (broadcast).
		p.first = prefix.Addr().Next().Next()
		p.last = lastAddress(prefix)
		if prefix.Addr().Is4() {
			p.last = p.last.Prev()
		}
		p.cursor = p.first.Prev()
		a.pools = append(a.pools, p)
	}
	return a
}

func lastAddress(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// restore takes over what a former run remembered, and starts to write. Addresses that it gave away
// and nobody holds now were given up at an unknown moment: they count as
// released now. Call it after hold was called for everything that exists.
func (a *addresses) restore(r remembered) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr, at := range r.released {
		if p := a.pool(addr); p != nil && p.users[addr] == 0 {
			p.released[addr] = at
		}
	}
	for addr := range r.given {
		if p := a.pool(addr); p != nil && p.users[addr] == 0 {
			p.released[addr] = a.now()
		}
	}
	for _, addr := range r.cursors {
		if p := a.pool(addr); p != nil && addr.Compare(p.first) >= 0 && addr.Compare(p.last) <= 0 {
			p.cursor = addr
		}
	}
	return a.ledger.rewrite(a.remembered())
}

// remembered is what the ledger has to say if it is written anew.
func (a *addresses) remembered() remembered {
	r := remembered{given: map[netip.Addr]bool{}, released: map[netip.Addr]time.Time{}}
	for _, p := range a.pools {
		for addr := range p.users {
			r.given[addr] = true
		}
		for addr, at := range p.released {
			if a.now().Sub(at) < quarantine {
				r.released[addr] = at
			}
		}
		r.cursors = append(r.cursors, p.cursor)
	}
	return r
}

// allocate gives user one address of each range; those that it has are kept.
func (a *addresses) allocate(user types.UID) ([]netip.Addr, error) {
	return a.take(user, (*pool).next, true)
}

// allocateNode is allocate from the end of the ranges.
func (a *addresses) allocateNode(user types.UID) ([]netip.Addr, error) {
	return a.take(user, (*pool).nextFromEnd, false)
}

func (a *addresses) take(user types.UID, next func(*pool, time.Time) (netip.Addr, error), moved bool) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := a.byUser[user]
	var has, given []netip.Addr
	for _, p := range a.pools {
		if i := slices.IndexFunc(had, p.prefix.Contains); i >= 0 {
			has = append(has, had[i])
			continue
		}
		addr, err := next(p, a.now())
		if err != nil {
			return nil, err
		}
		has, given = append(has, addr), append(given, addr)
	}
	if len(given) == 0 {
		return has, nil
	}
	for _, addr := range given {
		a.pool(addr).users[addr]++
	}
	a.ledger.gave(given, moved)
	a.byUser[user] = has
	return has, nil
}

// hold makes addrs, which stand in user's status, the ones that user has.
func (a *addresses) hold(user types.UID, addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.byUser[user]
	if slices.Equal(have, addrs) {
		return
	}
	var ours []netip.Addr
	for _, addr := range addrs {
		if p := a.pool(addr); p != nil {
			p.users[addr]++
			delete(p.released, addr)
			ours = append(ours, addr)
		}
	}
	a.ledger.gave(ours, false)
	a.byUser[user] = addrs
	a.drop(have)
}

// release gives back what user has; safe to repeat.
func (a *addresses) release(user types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	have := a.byUser[user]
	delete(a.byUser, user)
	a.drop(have)
}

// drop takes one user from each address; those left without rest.
func (a *addresses) drop(addrs []netip.Addr) {
	now := a.now()
	var free []netip.Addr
	for _, addr := range addrs {
		p := a.pool(addr)
		if p == nil {
			continue
		}
		if p.users[addr]--; p.users[addr] > 0 {
			continue
		}
		delete(p.users, addr)
		p.sweep(now)
		p.released[addr] = now
		free = append(free, addr)
	}
	a.ledger.released(free, now)
	a.compact()
}

// compact writes the ledger anew if that makes it much shorter, which is once
// per as many steps as it then has lines.
func (a *addresses) compact() {
	known := 0
	for _, p := range a.pools {
		known += len(p.users) + len(p.released)
	}
	if a.ledger.lines <= max(ledgerLines, 4*known) {
		return
	}
	if err := a.ledger.rewrite(a.remembered()); err != nil {
		a.ledger.warn(err)
		a.ledger.lines = 0 // and not again with every step
	}
}

// counts returns the number of addresses in use and at rest, for metrics.
func (a *addresses) counts() (used, resting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for _, p := range a.pools {
		used += len(p.users)
		for _, at := range p.released {
			if now.Sub(at) < quarantine {
				resting++
			}
		}
	}
	return used, resting
}

func (a *addresses) pool(addr netip.Addr) *pool {
	for _, p := range a.pools {
		if p.prefix.Contains(addr) {
			return p
		}
	}
	return nil
}

// sweep bounds the memory of released addresses; it costs O(n) once per n.
func (p *pool) sweep(now time.Time) {
	if len(p.released)&0x3ff != 0x3ff {
		return
	}
	for addr, at := range p.released {
		if now.Sub(at) >= quarantine {
			delete(p.released, addr)
		}
	}
}

func (p *pool) free(addr netip.Addr, now time.Time) bool {
	if p.users[addr] > 0 {
		return false
	}
	at, resting := p.released[addr]
	return !resting || now.Sub(at) >= quarantine
}

// next walks up from the cursor. As only users and resting addresses are in
// the way, one more step than there are of those, or one round, finds a free
// address if there is one.
func (p *pool) next(now time.Time) (netip.Addr, error) {
	addr := p.cursor
	for range len(p.users) + len(p.released) + 1 {
		addr = addr.Next()
		if !addr.IsValid() || addr.Compare(p.last) > 0 {
			addr = p.first
		}
		if addr.Compare(p.last) > 0 {
			break
		}
		if p.free(addr, now) {
			p.cursor = addr
			return addr, nil
		}
	}
	return netip.Addr{}, p.exhausted()
}

func (p *pool) nextFromEnd(now time.Time) (netip.Addr, error) {
	for addr := p.last; addr.Compare(p.first) >= 0; addr = addr.Prev() {
		if p.free(addr, now) {
			return addr, nil
		}
	}
	return netip.Addr{}, p.exhausted()
}

func (p *pool) exhausted() error {
	return fmt.Errorf("no free address in pod range %s: %d in use, %d given up less than %s ago", p.prefix, len(p.users), len(p.released), quarantine)
}
