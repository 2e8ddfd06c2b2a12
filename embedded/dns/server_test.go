package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// patient is longer than any answer takes.
const patient = 30 * time.Second

// serve serves a server on loopback, by UDP and TCP at one address.
func serve(t *testing.T, s *Server) (address string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group, _ := lifecycle.NewGroup(ctx)
	group.Go("server", func() error { return s.Serve(ctx, packets, listener) })
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return packets.LocalAddr().String()
}

func ask(t *testing.T, network, address string, request *mdns.Msg) *mdns.Msg {
	t.Helper()
	client := mdns.Client{Net: network, Timeout: patient}
	reply, _, err := client.Exchange(request, address)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func question(name string, rrtype uint16) *mdns.Msg { return new(mdns.Msg).SetQuestion(name, rrtype) }

// many is a headless Service with more endpoints than fit into a datagram.
func many() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Service\nmetadata: {name: many, namespace: default}\nspec: {clusterIP: None}\n---\n")
	b.WriteString("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: many-1, namespace: default, labels: {kubernetes.io/service-name: many}}\naddressType: IPv4\nendpoints:\n")
	for n := range 100 {
		fmt.Fprintf(&b, "- {addresses: [10.3.1.%d]}\n", n+1)
	}
	return b.String()
}

// An answer that does not fit is cut, and whole by TCP; EDNS says what fits.
func TestSizes(t *testing.T) {
	address := serve(t, newTestServer(t, many()))
	const name = "many.default.svc.cluster.local."
	for _, row := range []struct {
		network string
		size    uint16
		least   int
		most    int
		cut     bool
	}{
		{"udp", 0, 20, 512, true},
		{"udp", 100, 20, 512, true},
		{"udp", 1000, 50, 1000, true},
		{"udp", 65000, 60, maxDatagram, true},
		{"tcp", 0, 100, mdns.MaxMsgSize, false},
		{"tcp", 1232, 100, mdns.MaxMsgSize, false},
	} {
		t.Run(fmt.Sprint(row.network, row.size), func(t *testing.T) {
			request := question(name, mdns.TypeA)
			if row.size > 0 {
				request.SetEdns0(row.size, true)
			}
			client := mdns.Client{Net: row.network, Timeout: patient, UDPSize: mdns.MaxMsgSize}
			reply, _, err := client.Exchange(request, address)
			if err != nil {
				t.Fatal(err)
			}
			reply.Compress = true
			if reply.Truncated != row.cut || len(reply.Answer) < row.least || reply.Len() > row.most {
				t.Errorf("%d records in %d bytes, cut %v", len(reply.Answer), reply.Len(), reply.Truncated)
			}
			if options := reply.IsEdns0(); (options != nil) != (row.size > 0) || options != nil && !options.Do() {
				t.Errorf("options are %v", options)
			}
		})
	}
}

// What is no question that is answered is refused by its code.
func TestOddQuestions(t *testing.T) {
	address := serve(t, newTestServer(t, cluster))
	version := question("kubernetes.default.svc.cluster.local.", mdns.TypeA).SetEdns0(1232, false)
	version.IsEdns0().SetVersion(1)
	class := question("version.bind.", mdns.TypeTXT)
	class.Question[0].Qclass = mdns.ClassCHAOS
	none, update := new(mdns.Msg), question("cluster.local.", mdns.TypeSOA)
	none.Id = mdns.Id()
	update.Opcode = mdns.OpcodeUpdate
	for _, row := range []struct {
		name    string
		request *mdns.Msg
		code    int
	}{
		{"another version of EDNS", version, mdns.RcodeBadVers},
		{"another class", class, mdns.RcodeRefused},
		{"no question", none, mdns.RcodeFormatError},
		{"update", update, mdns.RcodeNotImplemented},
	} {
		t.Run(row.name, func(t *testing.T) {
			if reply := ask(t, "udp", address, row.request); reply.Rcode != row.code {
				t.Errorf("answer is %s", mdns.RcodeToString[reply.Rcode])
			}
		})
	}
}

// resolver answers as a resolver on the host would: with one address for all that
// it knows, and a code for all else.
func resolver(t *testing.T, last byte, code int) (address string, asked *atomic.Int64) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	answer := mdns.HandlerFunc(func(w mdns.ResponseWriter, request *mdns.Msg) {
		asked.Add(1)
		reply := new(mdns.Msg).SetReply(request)
		reply.Rcode = code
		if code == mdns.RcodeSuccess && request.Question[0].Qtype == mdns.TypeA {
			reply.Answer = []mdns.RR{&mdns.A{Hdr: header(request.Question[0].Name, mdns.TypeA), A: net.IPv4(192, 0, 2, last)}}
		}
		w.WriteMsg(reply)
	})
	group, _ := lifecycle.NewGroup(t.Context())
	for _, server := range []*mdns.Server{{PacketConn: packets, Handler: answer}, {Listener: listener, Handler: answer}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		group.Go("resolver", server.ActivateAndServe)
		<-started
		t.Cleanup(func() { server.Shutdown() })
	}
	return packets.LocalAddr().String(), asked
}

// forwarding is a server whose resolv.conf has the given lines; all resolvers have one port.
func forwarding(t *testing.T, port, text string, set ...func(*upstream)) (address, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Source: newState(t, cluster), ClusterDomain: "cluster.local", Upstream: file})
	if err != nil {
		t.Fatal(err)
	}
	s.upstream.port = port
	for _, change := range set {
		change(s.upstream)
	}
	return serve(t, s), file
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// What is not of the cluster is asked of the user's resolvers, those that the file
// names at the time.
func TestForward(t *testing.T) {
	upstream, asked := resolver(t, 1, mdns.RcodeSuccess)
	address, file := forwarding(t, portOf(t, upstream), "search example.com\nnameserver 127.0.0.1\n")
	for _, row := range []struct {
		network, name, want string
		rrtype              uint16
	}{
		{"udp", "www.example.com.", "www.example.com. 5 IN A 192.0.2.1", mdns.TypeA},
		{"tcp", "www.example.com.", "www.example.com. 5 IN A 192.0.2.1", mdns.TypeA},
		{"udp", "1.2.0.192.in-addr.arpa.", "", mdns.TypePTR},
		{"udp", "foo.default.svc.cluster.local.", "foo.default.svc.cluster.local. 5 IN CNAME www.example.com.\nwww.example.com. 5 IN A 192.0.2.1", mdns.TypeA},
		{"udp", "foo.default.svc.cluster.local.", "foo.default.svc.cluster.local. 5 IN CNAME www.example.com.", mdns.TypeAAAA},
	} {
		before := asked.Load()
		reply := ask(t, row.network, address, question(row.name, row.rrtype))
		if got := lines(reply.Answer); reply.Rcode != mdns.RcodeSuccess || got != row.want {
			t.Errorf("%s by %s: %s %s", row.name, row.network, mdns.RcodeToString[reply.Rcode], got)
		}
		if asked.Load() != before+1 {
			t.Errorf("%s: asked %d times", row.name, asked.Load()-before)
		}
	}
	before := asked.Load()
	ask(t, "udp", address, question("none.default.svc.cluster.local.", mdns.TypeA))
	if asked.Load() != before {
		t.Error("a resolver is asked of the cluster")
	}
	if err := os.WriteFile(file, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if reply := ask(t, "udp", address, question("www.example.com.", mdns.TypeA)); reply.Rcode != mdns.RcodeServerFailure {
		t.Errorf("answer by nobody is %v", reply)
	}
}

// A resolver that is not there is passed over, and one that will not answer is
// believed if there is no other.
func TestUnwillingResolvers(t *testing.T) {
	unwilling, _ := resolver(t, 0, mdns.RcodeRefused)
	port := portOf(t, unwilling)
	willing, err := net.ListenPacket("udp", "127.0.0.2:"+port)
	if err != nil {
		t.Skipf("needs a second loopback address: %v", err)
	}
	defer willing.Close()
	group, _ := lifecycle.NewGroup(t.Context())
	defer group.Wait()
	server := &mdns.Server{PacketConn: willing, Handler: mdns.HandlerFunc(func(w mdns.ResponseWriter, request *mdns.Msg) {
		w.WriteMsg(new(mdns.Msg).SetRcode(request, mdns.RcodeNameError))
	})}
	group.Go("resolver", server.ActivateAndServe)
	defer willing.Close()
	for text, code := range map[string]int{
		"nameserver 127.0.0.1\nnameserver 127.0.0.2\n": mdns.RcodeNameError,
		"nameserver 127.0.0.3\nnameserver 127.0.0.2\n": mdns.RcodeNameError,
		"nameserver 127.0.0.3\nnameserver 127.0.0.1\n": mdns.RcodeRefused,
		"nameserver 127.0.0.3\n":                       mdns.RcodeServerFailure,
	} {
		address, _ := forwarding(t, port, text)
		if reply := ask(t, "udp", address, question("www.example.com.", mdns.TypeA)); reply.Rcode != code {
			t.Errorf("with %q: %s", text, mdns.RcodeToString[reply.Rcode])
		}
	}
}

// A resolver that is silent is given up before a client would ask again.
func TestSilentResolver(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	address, _ := forwarding(t, portOf(t, silent.LocalAddr().String()), "nameserver 127.0.0.1\n",
		func(u *upstream) { u.patience = 100 * time.Millisecond })
	if reply := ask(t, "udp", address, question("www.example.com.", mdns.TypeA)); reply.Rcode != mdns.RcodeServerFailure {
		t.Errorf("answer is %v", reply)
	}
}

func TestClusterIP(t *testing.T) {
	for ranges, want := range map[string]string{
		"10.96.0.0/12,fd00:10:96::/112": "10.96.0.10",
		"fd00:10:96::/112":              "fd00:10:96::a",
		"10.96.0.9/12":                  "10.96.0.10",
		"10.96.0.0/29":                  "",
		"nonsense":                      "",
	} {
		addr, err := ClusterIP(ranges)
		if got := addr.String(); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s: %s, %v", ranges, got, err)
		}
	}
}

// The Service is there with its ports and its endpoint, and goes unless it is another's.
func TestPublish(t *testing.T) {
	ctx, client := t.Context(), fake.NewClientset()
	services := client.CoreV1().Services(ServiceNamespace)
	for range 2 {
		if err := Publish(ctx, client, netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("10.244.0.1")); err != nil {
			t.Fatal(err)
		}
	}
	service, err := services.Get(ctx, ServiceName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ports := service.Spec.Ports; service.Spec.ClusterIP != "10.96.0.10" || len(ports) != 2 || ports[0].Name != "dns" || ports[0].Protocol != corev1.ProtocolUDP || ports[1].Name != "dns-tcp" {
		t.Errorf("Service is %+v", service.Spec)
	}
	slice, err := client.DiscoveryV1().EndpointSlices(ServiceNamespace).Get(ctx, ServiceName, metav1.GetOptions{})
	if err != nil || slice.Endpoints[0].Addresses[0] != "10.244.0.1" || len(slice.Ports) != 2 {
		t.Errorf("slice is %+v, %v", slice, err)
	}
	for range 2 {
		if err := Withdraw(ctx, client); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := services.Get(ctx, ServiceName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Service is still there: %v", err)
	}
	if _, err := services.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Withdraw(ctx, client); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Get(ctx, ServiceName, metav1.GetOptions{}); err != nil {
		t.Errorf("the Service of somebody else: %v", err)
	}
}
