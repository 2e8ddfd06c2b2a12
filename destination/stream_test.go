package destination

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// stream is a client of one call.
type stream[M any] struct {
	grpc.ServerStream
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	decode func([]byte) (M, error)

	mu       sync.Mutex
	messages []M
	err      error
	ended    bool
}

func (s *stream[M]) Context() context.Context     { return s.ctx }
func (s *stream[M]) SetHeader(metadata.MD) error  { return nil }
func (s *stream[M]) SendHeader(metadata.MD) error { return nil }
func (s *stream[M]) SetTrailer(metadata.MD)       {}
func (s *stream[M]) RecvMsg(any) error            { return nil }
func (s *stream[M]) Send(m M) error               { return s.SendMsg(m) }
func (s *stream[M]) end(err error)                { s.mu.Lock(); s.err, s.ended = err, true; s.mu.Unlock() }
func (s *stream[M]) status() (*status.Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status.Convert(s.err), s.ended
}

func (s *stream[M]) SendMsg(m any) error {
	var data []byte
	switch m := m.(type) {
	case *grpcserver.Encoded:
		data = m.Bytes()
	case proto.Message:
		var err error
		if data, err = proto.Marshal(m); err != nil {
			return err
		}
	}
	decoded, err := s.decode(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, decoded)
	return s.ctx.Err()
}

// take returns what was received since the last call.
func (s *stream[M]) take() []M {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.messages
	s.messages = nil
	return taken
}

// open starts a call. It ends with the test, if not before.
func open[M any](c *cluster, decode func([]byte) (M, error), call func(*stream[M]) error) *stream[M] {
	s := &stream[M]{t: c.t, decode: decode}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.end(call(s))
	}()
	c.t.Cleanup(func() { s.cancel(); <-done })
	synctest.Wait()
	return s
}

// getStream is a client of Get.
type getStream struct {
	*stream[*pb.Update]
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
	decode := func(data []byte) (*pb.Update, error) {
		u := &pb.Update{}
		return u, proto.Unmarshal(data, u)
	}
	s := open(c, decode, func(s *stream[*pb.Update]) error { return c.server.Get(request, s) })
	return &getStream{stream: s, held: map[string]string{}}
}

// want compares the messages since the last want, each written as by brief;
// none means silence.
func (s *getStream) want(messages ...string) {
	s.t.Helper()
	got := []string{}
	taken := s.take()
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
	got, ended := s.status()
	if !ended {
		s.t.Errorf("the call has not ended, want %v %q", code, message)
	} else if got.Code() != code || got.Message() != message {
		s.t.Errorf("status %v %q, want %v %q", got.Code(), got.Message(), code, message)
	}
}

func (s *getStream) wantOpen() {
	s.t.Helper()
	if got, ended := s.status(); ended {
		s.t.Errorf("the call has ended: %v", got)
	}
}

// one returns the only address of the only message, an Add, since the last want.
func (s *getStream) one() *pb.WeightedAddr {
	s.t.Helper()
	taken := s.take()
	if len(taken) != 1 || len(taken[0].GetAdd().GetAddrs()) != 1 {
		s.t.Fatalf("want one address, got %v", taken)
	}
	return taken[0].GetAdd().Addrs[0]
}

// hold applies what was received since the last call to what the client holds.
func (s *getStream) hold() map[string]string {
	s.apply(s.take())
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

func addrText(a *net.TcpAddress) string { return addrPort(a).String() }

func addrPort(a *net.TcpAddress) netip.AddrPort {
	var ip netip.Addr
	switch v := a.Ip.Ip.(type) {
	case *net.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte{byte(v.Ipv4 >> 24), byte(v.Ipv4 >> 16), byte(v.Ipv4 >> 8), byte(v.Ipv4)})
	case *net.IPAddress_Ipv6:
		var b [16]byte
		for i := range 8 {
			b[i], b[8+i] = byte(v.Ipv6.First>>(56-8*i)), byte(v.Ipv6.Last>>(56-8*i))
		}
		ip = netip.AddrFrom16(b)
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}

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
