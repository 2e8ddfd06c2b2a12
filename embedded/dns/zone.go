package dns

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

const (
	// ttl is how long an answer may be kept, in seconds; CoreDNS's default.
	ttl = 5
	// maxAliases is how many ExternalNames may follow upon each other.
	maxAliases = 8
	// specification is the version of the names and records.
	specification = "1.1.0"
)

// zone is the cluster domain in one version of the State.
type zone struct {
	// domain is the cluster domain, in small letters, with a dot at its end.
	domain string
	reader *state.Reader
}

// answer is what a zone says to a question.
type answer struct {
	code           int
	records, extra []mdns.RR
	// elsewhere is the name that the last of the records is an alias of, if
	// that is not below the cluster domain.
	elsewhere string
}

// name is what there is at a name.
type name struct {
	// exists is false unless there are records here or at names below.
	exists  bool
	records []mdns.RR
	// targets are the addresses of those that SRV records name.
	targets []mdns.RR
}

// answer answers a question about a name below the cluster domain.
func (z zone) answer(q mdns.Question) answer {
	var a answer
	for owner := q.Name; len(a.records) < maxAliases; {
		found := z.find(owner)
		if alias := found.alias(); alias != nil && q.Qtype != mdns.TypeCNAME {
			a.records = append(a.records, alias)
			if owner = alias.Target; !z.has(owner) {
				a.elsewhere = owner
				return a
			}
			continue
		}
		if !found.exists {
			a.code = mdns.RcodeNameError
		}
		records := found.of(q.Qtype)
		if q.Qtype == mdns.TypeSRV && len(records) > 0 {
			a.extra = mdns.Dedup(found.targets, nil)
		}
		a.records = append(a.records, records...)
		return a
	}
	return answer{code: mdns.RcodeServerFailure}
}

// of are the records of a type. An endpoint may be in two slices for a moment.
func (n name) of(rrtype uint16) []mdns.RR {
	records := slices.DeleteFunc(n.records, func(r mdns.RR) bool { return r.Header().Rrtype != rrtype })
	records = mdns.Dedup(records, nil)
	for _, record := range records {
		if srv, ok := record.(*mdns.SRV); ok {
			srv.Weight = uint16(max(1, 100/len(records)))
		}
	}
	return records
}

func (n name) alias() *mdns.CNAME {
	if len(n.records) == 0 {
		return nil
	}
	alias, _ := n.records[0].(*mdns.CNAME)
	return alias
}

// has tells whether a name is below the cluster domain.
func (z zone) has(owner string) bool { return mdns.IsSubDomain(z.domain, owner) }

// labels are those of a name before the cluster domain.
func (z zone) labels(owner string) []string {
	labels := mdns.SplitDomainName(mdns.CanonicalName(owner))
	return labels[:len(labels)-mdns.CountLabel(z.domain)]
}

// find finds a name below the cluster domain. Records have it as it was asked for.
func (z zone) find(owner string) name {
	labels := z.labels(owner)
	last := len(labels) - 1
	switch {
	case last < 0:
		return name{exists: true, records: []mdns.RR{z.soa(), &mdns.NS{Hdr: header(z.domain, mdns.TypeNS), Ns: z.serviceName(ServiceNamespace, ServiceName)}}}
	case last == 0 && labels[0] == "dns-version":
		return name{exists: true, records: []mdns.RR{&mdns.TXT{Hdr: header(owner, mdns.TypeTXT), Txt: []string{specification}}}}
	case labels[last] == "svc":
		return z.findService(owner, labels[:last])
	case labels[last] == "pod":
		return z.findPod(owner, labels[:last])
	}
	return name{}
}

// soa is what negative answers have, so that they are kept no longer than others.
func (z zone) soa() mdns.RR {
	return &mdns.SOA{
		Hdr: header(z.domain, mdns.TypeSOA), Ns: "ns.dns." + z.domain, Mbox: "hostmaster." + z.domain,
		// Nobody transfers the zone: any number will do.
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl,
	}
}

// findPod finds ADDRESS.NAMESPACE.pod, the address written with dashes.
func (z zone) findPod(owner string, labels []string) name {
	switch len(labels) {
	case 0:
		return name{exists: true}
	case 1:
		return name{exists: some(state.List(z.reader, state.Pods, labels[0]))}
	case 2:
		addr, ok := undashed(labels[0])
		if !ok {
			return name{}
		}
		for pod := range state.By(z.reader, state.Pods, state.PodsByIP, addr.String()) {
			if pod.Namespace == labels[1] && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				return name{exists: true, records: []mdns.RR{address(owner, addr)}}
			}
		}
	}
	return name{}
}

func some[T any](all iter.Seq[T]) bool {
	for range all {
		return true
	}
	return false
}

// dashed writes an address as a label.
func dashed(addr netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(addr.String())
}

// undashed reads an address that is a label.
func undashed(label string) (netip.Addr, bool) {
	for _, separator := range []string{".", ":"} {
		if addr, err := netip.ParseAddr(strings.ReplaceAll(label, "-", separator)); err == nil {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func header(owner string, rrtype uint16) mdns.RR_Header {
	return mdns.RR_Header{Name: owner, Rrtype: rrtype, Class: mdns.ClassINET, Ttl: ttl}
}

// address is the A or AAAA record of an address.
func address(owner string, addr netip.Addr) mdns.RR {
	if addr.Is4() {
		return &mdns.A{Hdr: header(owner, mdns.TypeA), A: addr.AsSlice()}
	}
	return &mdns.AAAA{Hdr: header(owner, mdns.TypeAAAA), AAAA: addr.AsSlice()}
}
