package destination

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/test/streams"
)

// open starts a call and waits for what comes first.
func open[M proto.Message](c *cluster, call func(*streams.Stream[M]) error) *streams.Stream[M] {
	s := streams.Open(c.t, call)
	synctest.Wait()
	return s
}

// getStream is a client of Get.
type getStream struct {
	*streams.Stream[*pb.Update]
	t           testing.TB
	path, token string
	// held is what a client holds after the messages it has taken.
	held map[string]string
}

// get calls Get; the token is a node's name, or all of a context token if it
// starts with a brace.
func (c *cluster) get(path string, token ...string) *getStream {
	c.t.Helper()
	request := &pb.GetDestination{Path: path}
	if len(token) > 0 {
		request.ContextToken = token[0]
		if !strings.HasPrefix(token[0], "{") {
			request.ContextToken = `{"nodeName":"` + token[0] + `"}`
		}
	}
	return c.call(request)
}

func (c *cluster) call(request *pb.GetDestination) *getStream {
	s := open(c, func(s *streams.Stream[*pb.Update]) error { return c.server.Get(request, s) })
	return &getStream{Stream: s, t: c.t, held: map[string]string{}}
}

// want compares the messages since the last want, each written as by brief;
// none means silence.
func (s *getStream) want(messages ...string) {
	s.t.Helper()
	got := []string{}
	taken := s.Take()
	for _, u := range taken {
		got = append(got, brief(u))
	}
	s.apply(taken)
	if diff := cmp.Diff(append([]string{}, messages...), got); diff != "" {
		s.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// wantStatus compares how the call ended.
func (s *getStream) wantStatus(code codes.Code, message string) {
	s.t.Helper()
	got, ended := s.Status()
	if !ended {
		s.t.Errorf("the call has not ended, want %v %q", code, message)
	} else if got.Code() != code || got.Message() != message {
		s.t.Errorf("status %v %q, want %v %q", got.Code(), got.Message(), code, message)
	}
}

func (s *getStream) wantOpen() {
	s.t.Helper()
	if got, ended := s.Status(); ended {
		s.t.Errorf("the call has ended: %v", got)
	}
}

// one returns the only address of the only message, an Add, since the last want.
func (s *getStream) one() *pb.WeightedAddr {
	s.t.Helper()
	taken := s.Take()
	if len(taken) != 1 || len(taken[0].GetAdd().GetAddrs()) != 1 {
		s.t.Fatalf("want one address, got %v", taken)
	}
	return taken[0].GetAdd().Addrs[0]
}

// hold applies what was received since the last call to what the client holds.
func (s *getStream) hold() map[string]string {
	s.apply(s.Take())
	return maps.Clone(s.held)
}

func (s *getStream) apply(updates []*pb.Update) {
	for _, u := range updates {
		for _, w := range u.GetAdd().GetAddrs() {
			s.held[addrText(w.Addr)] = fmt.Sprint(labelText(w.MetricLabels), w.Weight, w.TlsIdentity, w.ProtocolHint, w.AuthorityOverride, w.Http2, labelText(u.GetAdd().MetricLabels))
		}
		for _, a := range u.GetRemove().GetAddrs() {
			delete(s.held, addrText(a))
		}
	}
}

// brief is "A" or "R" and the sorted addresses.
func brief(u *pb.Update) string {
	var addrs []string
	kind := "?"
	switch {
	case u.GetAdd() != nil:
		kind = "A"
		for _, w := range u.GetAdd().Addrs {
			addrs = append(addrs, addrText(w.Addr))
		}
	case u.GetRemove() != nil:
		kind = "R"
		for _, a := range u.GetRemove().Addrs {
			addrs = append(addrs, addrText(a))
		}
	}
	slices.Sort(addrs)
	return strings.TrimSpace(kind + " " + strings.Join(addrs, " "))
}

func addrText(a *net.TcpAddress) string { return a.AddrPort().String() }

func labelText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, " ")
}

// all is what the client holds, as text.
func (s *getStream) all() string {
	var lines []string
	for addr, what := range s.hold() {
		lines = append(lines, addr+" "+what)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
