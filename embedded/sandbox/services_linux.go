package sandbox

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// services lead connections to Services on to their endpoints, in the sandbox's own network
// and one family.
type services struct {
	conn   *nftables.Conn
	table  *nftables.Table
	before *nftables.Chain
	// hairpins has each pod's address twice: a pod that is led to itself takes its own
	// address for a mistake.
	hairpins *nftables.Set

	mu   sync.Mutex
	last int
	// chains are those of the known ports of Services.
	chains map[string]*serviceChain
}

type serviceChain struct {
	chain *nftables.Chain
	at    netip.AddrPort
	udp   bool
}

func newServices(family nftables.TableFamily) (*services, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	s := &services{conn: conn, chains: map[string]*serviceChain{}}
	s.table = conn.AddTable(&nftables.Table{Family: family, Name: tableName})
	s.before = conn.AddChain(natChain(s.table, "services", nftables.ChainHookPrerouting))
	address := nftables.TypeIPAddr
	if family == nftables.TableFamilyIPv6 {
		address = nftables.TypeIP6Addr
	}
	s.hairpins = &nftables.Set{Table: s.table, Name: "hairpins", KeyType: nftables.MustConcatSetType(address, address), Concatenation: true}
	if err := conn.AddSet(s.hairpins, nil); err != nil {
		return nil, err
	}
	after := conn.AddChain(natChain(s.table, "hairpins", nftables.ChainHookPostrouting))
	conn.AddRule(&nftables.Rule{Table: s.table, Chain: after, Exprs: rule(fromTo(s.hairpins), masquerade())})
	outside := conn.AddChain(&nftables.Chain{
		Table: s.table, Name: "outside", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
	})
	conn.AddRule(&nftables.Rule{Table: s.table, Chain: outside, Exprs: rule(outgoing("lo"), unreachable())})
	if err := conn.Flush(); err != nil {
		return nil, fmt.Errorf("add the table of Services: %w", err)
	}
	return s, nil
}

// hairpin lets a pod reach itself by way of a Service, or not any more.
func (s *services) hairpin(pod netip.Addr, is bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := s.conn.SetDeleteElements
	if is {
		change = s.conn.SetAddElements
	}
	address := pod.AsSlice()
	if err := change(s.hairpins, []nftables.SetElement{{Key: slices.Concat(address, address)}}); err != nil {
		return err
	}
	if err := s.conn.Flush(); err != nil {
		return fmt.Errorf("pod %s as an endpoint of itself: %w", pod, err)
	}
	return nil
}

func (s *services) set(service Service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.chains[service.ID]
	if known != nil && (known.at != service.Address || known.udp != service.UDP) {
		if err := s.drop(service.ID); err != nil {
			return err
		}
		known = nil
	}
	if known == nil {
		s.last++
		known = &serviceChain{
			chain: s.conn.AddChain(&nftables.Chain{Table: s.table, Name: fmt.Sprintf("service-%d", s.last)}),
			at:    service.Address, udp: service.UDP,
		}
		number := byte(unix.IPPROTO_TCP)
		if service.UDP {
			number = unix.IPPROTO_UDP
		}
		port := service.Address.Port()
		s.conn.AddRule(&nftables.Rule{Table: s.table, Chain: s.before, UserData: []byte(service.ID), Exprs: rule(
			to(service.Address.Addr()), protocol(number), toPort(PortRange{port, port}), jump(known.chain.Name),
		)})
	} else {
		s.conn.FlushChain(known.chain)
	}
	for i, endpoint := range service.Endpoints {
		s.conn.AddRule(&nftables.Rule{Table: s.table, Chain: known.chain, Exprs: rule(oneIn(len(service.Endpoints)-i), leadTo(endpoint))})
	}
	if err := s.conn.Flush(); err != nil {
		return fmt.Errorf("set Service at %s: %w", service.Address, err)
	}
	s.chains[service.ID] = known
	return nil
}

func (s *services) remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(id)
}

func (s *services) drop(id string) error {
	known := s.chains[id]
	if known == nil {
		return nil
	}
	rules, err := s.conn.GetRules(s.table, s.before)
	if err != nil {
		return fmt.Errorf("read the rules of Services: %w", err)
	}
	for _, r := range rules {
		if string(r.UserData) == id {
			if err := s.conn.DelRule(r); err != nil {
				return err
			}
		}
	}
	s.conn.DelChain(known.chain)
	if err := s.conn.Flush(); err != nil {
		return fmt.Errorf("remove Service at %s: %w", known.at, err)
	}
	delete(s.chains, id)
	return nil
}
