package dns

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// cluster has the objects of the examples of the specification, in two families where it has both.
const cluster = `
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec:
  clusterIP: 10.3.0.1
  clusterIPs: [10.3.0.1, "2001:db8::1"]
  ports:
  - {name: https, port: 443, protocol: TCP}
  - {name: quic, port: 443, protocol: UDP}
---
apiVersion: v1
kind: Service
metadata: {name: unnamed, namespace: default}
spec:
  clusterIP: 10.3.0.2
  ports:
  - {port: 80, protocol: TCP}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: default}
spec:
  clusterIP: None
  ports:
  - {name: https, port: 443, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-1, namespace: default, labels: {kubernetes.io/service-name: headless}}
addressType: IPv4
ports:
- {name: https, port: 8443, protocol: TCP}
endpoints:
- {addresses: [10.3.0.100], hostname: my-pet, conditions: {ready: true}}
- {addresses: [10.3.0.101]}
- {addresses: [10.3.0.102], hostname: ill, conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-2, namespace: default, labels: {kubernetes.io/service-name: headless}}
addressType: IPv6
ports:
- {name: https, port: 8443, protocol: TCP}
endpoints:
- {addresses: ["2001:db8::100"], hostname: my-pet, conditions: {ready: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-3, namespace: default, labels: {kubernetes.io/service-name: headless}}
addressType: IPv4
ports:
- {name: https, port: 8443, protocol: TCP}
endpoints:
- {addresses: [10.3.0.101]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: headless-4, namespace: default, labels: {kubernetes.io/service-name: headless}}
addressType: FQDN
endpoints:
- {addresses: [elsewhere.example.com]}
---
apiVersion: v1
kind: Service
metadata: {name: early, namespace: default}
spec: {clusterIP: None, publishNotReadyAddresses: true}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: early-1, namespace: default, labels: {kubernetes.io/service-name: early}}
addressType: IPv4
endpoints:
- {addresses: [10.3.0.110], hostname: db-0, conditions: {ready: false}}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: default}
spec: {clusterIP: None}
---
apiVersion: v1
kind: Service
metadata: {name: foo, namespace: default}
spec: {type: ExternalName, externalName: www.example.com}
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: default}
spec: {type: ExternalName, externalName: kubernetes.default.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: dangling, namespace: default}
spec: {type: ExternalName, externalName: nobody.default.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: circle, namespace: default}
spec: {type: ExternalName, externalName: circle.default.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: number, namespace: default}
spec: {type: ExternalName, externalName: 192.0.2.1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
status: {phase: Running, podIP: 10.3.0.100, podIPs: [{ip: 10.3.0.100}, {ip: "2001:db8::100"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: jobs}
status: {phase: Succeeded, podIP: 10.3.0.120}
`

const (
	soa      = "; cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"
	notFound = "NXDOMAIN" + soa
	noData   = "NOERROR" + soa
)

// newState is a State with the objects of documents.
func newState(t *testing.T, docs string) *state.State {
	t.Helper()
	st, err := state.New(state.Config{Kinds: state.LocalKinds(true)})
	if err != nil {
		t.Fatal(err)
	}
	store := objects.NewStore(t, st)
	for _, doc := range objects.Documents(docs) {
		store.Put(doc)
	}
	return st
}

func newTestServer(t *testing.T, docs string) *Server {
	t.Helper()
	s, err := New(Config{Source: newState(t, docs), ClusterDomain: "Cluster.Local"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lines are records without what does not matter, those of equal rank in order.
func lines(records []mdns.RR) string {
	var all []string
	for _, record := range records {
		if record.Header().Rrtype != mdns.TypeOPT {
			all = append(all, strings.Join(strings.Fields(record.String()), " "))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestAnswers(t *testing.T) {
	s := newTestServer(t, cluster)
	pets := "_https._tcp.headless.default.svc.cluster.local."
	for _, row := range []struct {
		rule, question string
		rrtype         uint16
		want           string
	}{
		{"2.2 version", "dns-version.cluster.local.", mdns.TypeTXT, `NOERROR dns-version.cluster.local. 5 IN TXT "1.1.0"`},
		{"2.3.1 A", "kubernetes.default.svc.cluster.local.", mdns.TypeA, "NOERROR kubernetes.default.svc.cluster.local. 5 IN A 10.3.0.1"},
		{"2.3.1 AAAA", "kubernetes.default.svc.cluster.local.", mdns.TypeAAAA, "NOERROR kubernetes.default.svc.cluster.local. 5 IN AAAA 2001:db8::1"},
		{"a family that there is not", "unnamed.default.svc.cluster.local.", mdns.TypeAAAA, noData},
		{"capitals", "KUBERNETES.Default.svc.Cluster.local.", mdns.TypeA, "NOERROR KUBERNETES.Default.svc.Cluster.local. 5 IN A 10.3.0.1"},
		{"2.3.2 SRV", "_https._tcp.kubernetes.default.svc.cluster.local.", mdns.TypeSRV, `NOERROR _https._tcp.kubernetes.default.svc.cluster.local. 5 IN SRV 0 100 443 kubernetes.default.svc.cluster.local.
			+ kubernetes.default.svc.cluster.local. 5 IN A 10.3.0.1
			kubernetes.default.svc.cluster.local. 5 IN AAAA 2001:db8::1`},
		{"another protocol", "_https._udp.kubernetes.default.svc.cluster.local.", mdns.TypeSRV, notFound},
		{"no name, no SRV", "_._tcp.unnamed.default.svc.cluster.local.", mdns.TypeSRV, notFound},
		{"all ports", "unnamed.default.svc.cluster.local.", mdns.TypeSRV, `NOERROR unnamed.default.svc.cluster.local. 5 IN SRV 0 100 80 unnamed.default.svc.cluster.local.
			+ unnamed.default.svc.cluster.local. 5 IN A 10.3.0.2`},
		{"A of a port", "_https._tcp.kubernetes.default.svc.cluster.local.", mdns.TypeA, noData},
		{"above ports", "_tcp.kubernetes.default.svc.cluster.local.", mdns.TypeSRV, noData},
		{"above no ports", "_sctp.kubernetes.default.svc.cluster.local.", mdns.TypeSRV, notFound},
		{"2.3.3 PTR", "1.0.3.10.in-addr.arpa.", mdns.TypePTR, "NOERROR 1.0.3.10.in-addr.arpa. 5 IN PTR kubernetes.default.svc.cluster.local."},
		{"2.3.3 PTR of IPv6", "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", mdns.TypePTR,
			"NOERROR 1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa. 5 IN PTR kubernetes.default.svc.cluster.local."},
		{"2.4.1 A", "headless.default.svc.cluster.local.", mdns.TypeA, `NOERROR headless.default.svc.cluster.local. 5 IN A 10.3.0.100
			headless.default.svc.cluster.local. 5 IN A 10.3.0.101`},
		{"2.4.1 AAAA", "headless.default.svc.cluster.local.", mdns.TypeAAAA, "NOERROR headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::100"},
		{"2.4.1 hostname", "my-pet.headless.default.svc.cluster.local.", mdns.TypeA, "NOERROR my-pet.headless.default.svc.cluster.local. 5 IN A 10.3.0.100"},
		{"endpoint without hostname", "10-3-0-101.headless.default.svc.cluster.local.", mdns.TypeA, "NOERROR 10-3-0-101.headless.default.svc.cluster.local. 5 IN A 10.3.0.101"},
		{"hostname that is not ready", "ill.headless.default.svc.cluster.local.", mdns.TypeA, notFound},
		{"not ready, but published", "db-0.early.default.svc.cluster.local.", mdns.TypeA, "NOERROR db-0.early.default.svc.cluster.local. 5 IN A 10.3.0.110"},
		{"not ready, but published, all", "early.default.svc.cluster.local.", mdns.TypeA, "NOERROR early.default.svc.cluster.local. 5 IN A 10.3.0.110"},
		{"published in one family", "early.default.svc.cluster.local.", mdns.TypeAAAA, noData},
		{"2.4.1 no endpoints", "empty.default.svc.cluster.local.", mdns.TypeA, notFound},
		{"2.4.2 SRV", pets, mdns.TypeSRV, "NOERROR " + pets + ` 5 IN SRV 0 50 8443 10-3-0-101.headless.default.svc.cluster.local.
			` + pets + ` 5 IN SRV 0 50 8443 my-pet.headless.default.svc.cluster.local.
			+ 10-3-0-101.headless.default.svc.cluster.local. 5 IN A 10.3.0.101
			my-pet.headless.default.svc.cluster.local. 5 IN A 10.3.0.100
			my-pet.headless.default.svc.cluster.local. 5 IN AAAA 2001:db8::100`},
		{"2.4.3 PTR", "100.0.3.10.in-addr.arpa.", mdns.TypePTR, "NOERROR 100.0.3.10.in-addr.arpa. 5 IN PTR my-pet.headless.default.svc.cluster.local."},
		{"A of an address", "100.0.3.10.in-addr.arpa.", mdns.TypeA, noData},
		{"PTR without hostname is others'", "101.0.3.10.in-addr.arpa.", mdns.TypePTR, "SERVFAIL"},
		{"2.5.1 CNAME", "foo.default.svc.cluster.local.", mdns.TypeCNAME, "NOERROR foo.default.svc.cluster.local. 5 IN CNAME www.example.com."},
		{"target that nobody can be asked for", "foo.default.svc.cluster.local.", mdns.TypeA, "SERVFAIL foo.default.svc.cluster.local. 5 IN CNAME www.example.com."},
		{"below an ExternalName", "x.foo.default.svc.cluster.local.", mdns.TypeA, notFound},
		{"ExternalName of the cluster", "alias.default.svc.cluster.local.", mdns.TypeA, `NOERROR alias.default.svc.cluster.local. 5 IN CNAME kubernetes.default.svc.cluster.local.
			kubernetes.default.svc.cluster.local. 5 IN A 10.3.0.1`},
		{"ExternalName of nobody", "dangling.default.svc.cluster.local.", mdns.TypeA, "NXDOMAIN dangling.default.svc.cluster.local. 5 IN CNAME nobody.default.svc.cluster.local." + soa},
		{"ExternalName of itself", "circle.default.svc.cluster.local.", mdns.TypeA, "SERVFAIL" + soa},
		{"ExternalName that is a number", "number.default.svc.cluster.local.", mdns.TypeA, noData},
		{"pod", "10-3-0-100.default.pod.cluster.local.", mdns.TypeA, "NOERROR 10-3-0-100.default.pod.cluster.local. 5 IN A 10.3.0.100"},
		{"pod of IPv6", "2001-db8--100.default.pod.cluster.local.", mdns.TypeAAAA, "NOERROR 2001-db8--100.default.pod.cluster.local. 5 IN AAAA 2001:db8::100"},
		{"pod, other family", "10-3-0-100.default.pod.cluster.local.", mdns.TypeAAAA, noData},
		{"pod of another namespace", "10-3-0-100.jobs.pod.cluster.local.", mdns.TypeA, notFound},
		{"pod that has ended", "10-3-0-120.jobs.pod.cluster.local.", mdns.TypeA, notFound},
		{"pod that is no address", "web.default.pod.cluster.local.", mdns.TypeA, notFound},
		{"pods of a namespace", "default.pod.cluster.local.", mdns.TypeA, noData},
		{"pods", "pod.cluster.local.", mdns.TypeA, noData},
		{"Services", "svc.cluster.local.", mdns.TypeA, noData},
		{"Services of a namespace", "default.svc.cluster.local.", mdns.TypeA, noData},
		{"no namespace", "none.svc.cluster.local.", mdns.TypeA, notFound},
		{"no Service", "none.default.svc.cluster.local.", mdns.TypeA, notFound},
		{"search path", "kubernetes.default.svc.cluster.local.default.svc.cluster.local.", mdns.TypeA, notFound},
		{"neither Service nor pod", "kubernetes.default.cluster.local.", mdns.TypeA, notFound},
		{"the domain", "cluster.local.", mdns.TypeA, noData},
		{"authority", "cluster.local.", mdns.TypeSOA, "NOERROR" + strings.TrimPrefix(soa, ";")},
		{"name servers", "cluster.local.", mdns.TypeNS, "NOERROR cluster.local. 5 IN NS kube-dns.kube-system.svc.cluster.local."},
		{"other types", "kubernetes.default.svc.cluster.local.", mdns.TypeMX, noData},
		{"all types", "kubernetes.default.svc.cluster.local.", mdns.TypeANY, noData},
		{"a name that ends alike", "notcluster.local.", mdns.TypeA, "SERVFAIL"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			reply := s.reply(t.Context(), new(mdns.Msg).SetQuestion(row.question, row.rrtype), "udp")
			got := mdns.RcodeToString[reply.Rcode]
			for _, section := range []struct{ before, text string }{{" ", lines(reply.Answer)}, {"; ", lines(reply.Ns)}, {"\n+ ", lines(reply.Extra)}} {
				if section.text != "" {
					got += section.before + section.text
				}
			}
			if want := strings.ReplaceAll(row.want, "\t", ""); got != want {
				t.Errorf("%s %s\n got %s\nwant %s", row.question, mdns.TypeToString[row.rrtype], got, want)
			}
			if reply.Question[0].Name != row.question || !reply.Response || !reply.RecursionAvailable {
				t.Errorf("header is %+v, question %v", reply.MsgHdr, reply.Question)
			}
		})
	}
}

// Clients take the first address.
func TestOrderChanges(t *testing.T) {
	s := newTestServer(t, cluster)
	seen := map[string]bool{}
	for n := 0; len(seen) < 2; n++ {
		if n == 1000 {
			t.Fatalf("always %v first", seen)
		}
		reply := s.reply(t.Context(), new(mdns.Msg).SetQuestion("headless.default.svc.cluster.local.", mdns.TypeA), "udp")
		seen[fmt.Sprint(reply.Answer[0].(*mdns.A).A)] = true
	}
}

// Nothing that can be asked ends the server.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"", ".", `a\.b.svc.cluster.local`, "_._.headless.default.svc.cluster.local", "1.0.3.10.in-addr.arpa", "x.ip6.arpa", ".in-addr.arpa", "-.default.pod.cluster.local"} {
		f.Add(name)
	}
	st, err := state.New(state.Config{Kinds: state.LocalKinds(true)})
	if err != nil {
		f.Fatal(err)
	}
	for _, doc := range objects.Documents(cluster) {
		objects.NewStore(f, st).Put(doc)
	}
	s, err := New(Config{Source: st, ClusterDomain: "cluster.local"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if _, ok := mdns.IsDomainName(name); !ok {
			return
		}
		for _, rrtype := range []uint16{mdns.TypeA, mdns.TypeSRV, mdns.TypePTR, mdns.TypeCNAME} {
			s.reply(t.Context(), new(mdns.Msg).SetQuestion(mdns.Fqdn(name), rrtype), "udp")
		}
	})
}
