package outbound

import (
	"cmp"
	"math/big"
	"net/netip"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
)

// network is a range of addresses without some of its parts. Immutable.
type network struct {
	cidr   netip.Prefix
	except []netip.Prefix
	// size is the number of addresses that are left, at least zero.
	size *big.Int
}

func (n network) contains(ip netip.Addr) bool {
	if !n.cidr.Contains(ip) {
		return false
	}
	for _, except := range n.except {
		if except.Contains(ip) {
			return false
		}
	}
	return true
}

func newNetwork(cidr netip.Prefix, except ...netip.Prefix) network {
	n := network{cidr: cidr, except: except, size: addresses(cidr)}
	for _, part := range except {
		n.size.Sub(n.size, addresses(part))
	}
	if n.size.Sign() < 0 {
		n.size.SetInt64(0)
	}
	return n
}

// addresses counts exactly, in both families (policy-outbound 8).
func addresses(cidr netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(cidr.Addr().BitLen()-cidr.Bits()))
}

// networks converts networks; without any they are all that is not the
// cluster's. One that is no network does not decode, and so is not seen here.
func (d *deriver) networks(networks []apis.Network) []network {
	if networks == nil {
		var v4, v6 []netip.Prefix
		for _, cluster := range d.clusterNetworks {
			if cluster.Addr().Is4() {
				v4 = append(v4, cluster)
			} else {
				v6 = append(v6, cluster)
			}
		}
		return []network{newNetwork(netip.MustParsePrefix("0.0.0.0/0"), v4...), newNetwork(netip.MustParsePrefix("::/0"), v6...)}
	}
	var out []network
	for _, n := range networks {
		cidr, err := n.CIDR.Prefix()
		if err != nil {
			continue
		}
		var excepts []netip.Prefix
		for _, e := range n.Except {
			if except, err := e.Prefix(); err == nil {
				excepts = append(excepts, except)
			}
		}
		out = append(out, newNetwork(cidr, excepts...))
	}
	return out
}

// mostSpecific returns the EgressNetwork for an address, nil if none is for it
// (policy-outbound 8, P152-P158): the one whose smallest matching network is
// the smallest, the oldest of these, the first by name of these.
func mostSpecific(candidates []*parent, ip netip.Addr) *parent {
	var best *parent
	var bestSize *big.Int
	for _, candidate := range candidates {
		var size *big.Int
		for _, n := range candidate.networks {
			if n.contains(ip) && (size == nil || n.size.Cmp(size) < 0) {
				size = n.size
			}
		}
		if size == nil {
			continue
		}
		if best == nil || cmp.Or(size.Cmp(bestSize), older(candidate, best)) < 0 {
			best, bestSize = candidate, size
		}
	}
	return best
}

// older orders parents of one kind: those without a time of creation first,
// then by that, then by namespace and name.
func older(a, b *parent) int {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}
