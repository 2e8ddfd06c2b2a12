package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
)

// clients have streams of every sort open, and open those again that end.
type clients struct {
	t      *testing.T
	calls  map[string]func(context.Context) (receiver, error)
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	ends     map[codes.Code]int
	messages map[string]int
	port     int
}

// receiver is a stream of any type.
type receiver func() (proto.Message, error)

func receive[M proto.Message](stream interface{ Recv() (M, error) }, err error) (receiver, error) {
	if err != nil {
		return nil, err
	}
	return func() (proto.Message, error) { return stream.Recv() }, nil
}

func (h *hostile) openStreams() *clients {
	c := &clients{t: h.t, ends: map[codes.Code]int{}, messages: map[string]int{}, calls: map[string]func(context.Context) (receiver, error){}}
	connect := func(part string) *grpc.ClientConn {
		conn, err := grpc.NewClient("passthrough:///"+h.info.Addresses[part], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { conn.Close() })
		return conn
	}
	dst := destination.NewDestinationClient(connect("destination"))
	policies := connect("policy")
	in, out := inbound.NewInboundServerPoliciesClient(policies), outbound.NewOutboundPoliciesClient(policies)
	const token = `{"ns":"shop","nodeName":"n1","pod":"web-a"}`
	for _, authority := range []string{"clock.shop.svc.cluster.local:80", "web.shop.svc.cluster.local:80", "web.shop.svc.cluster.local:3306", "web-sets.shop.svc.cluster.local:80", "web-a.web-sets.shop.svc.cluster.local:80", "all.shop.svc.cluster.local:80"} {
		c.calls["Get "+authority] = func(ctx context.Context) (receiver, error) {
			return receive(dst.Get(ctx, &destination.GetDestination{Scheme: "k8s", Path: authority, ContextToken: token}))
		}
	}
	for _, authority := range []string{"web.shop.svc.cluster.local:80", "10.96.9.1:80", "10.244.9.1:8080", "10.244.9.9:8080", "192.0.2.1:18080"} {
		c.calls["GetProfile "+authority] = func(ctx context.Context) (receiver, error) {
			return receive(dst.GetProfile(ctx, &destination.GetDestination{Path: authority, ContextToken: token}))
		}
	}
	for _, port := range []uint32{8080, 3306, 4191} {
		for _, workload := range []string{`{"ns":"shop","pod":"web-a"}`, `{"ns":"shop","external_workload":"vm"}`} {
			c.calls[fmt.Sprint("WatchPort ", workload, port)] = func(ctx context.Context) (receiver, error) {
				return receive(in.WatchPort(ctx, &inbound.PortSpec{Workload: workload, Port: port}))
			}
		}
	}
	for _, target := range []*outbound.TrafficSpec{
		{Target: &outbound.TrafficSpec_Authority{Authority: "web.shop.svc.cluster.local:80"}},
		{Target: &outbound.TrafficSpec_Addr{Addr: address(10<<24|96<<16|9<<8|1, 80)}},
		{Target: &outbound.TrafficSpec_Addr{Addr: address(203<<24|113<<8|7, 8443)}},
	} {
		target.SourceWorkload = token
		c.calls["Watch "+target.String()] = func(ctx context.Context) (receiver, error) { return receive(out.Watch(ctx, target)) }
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	for name := range c.calls {
		c.done.Go(func() { c.follow(ctx, name) })
	}
	return c
}

func address(ip, port uint32) *net.TcpAddress {
	return &net.TcpAddress{Ip: &net.IPAddress{Ip: &net.IPAddress_Ipv4{Ipv4: ip}}, Port: port}
}

// follow receives until ctx ends.
func (c *clients) follow(ctx context.Context, name string) {
	for ctx.Err() == nil {
		next, err := c.calls[name](ctx)
		for err == nil {
			var message proto.Message
			if message, err = next(); err == nil {
				c.note(name, message)
			}
		}
		if ctx.Err() == nil {
			c.mu.Lock()
			if !errors.Is(err, io.EOF) {
				c.ends[status.Code(err)]++
			}
			c.mu.Unlock()
			select { // the target is not there; a proxy waits before it asks again, too
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// note counts a message, and takes the port of the clock from an update about it.
func (c *clients) note(name string, message proto.Message) {
	c.mu.Lock()
	c.messages[name]++
	c.mu.Unlock()
	update, ok := message.(*destination.Update)
	if !ok {
		return
	}
	for _, added := range update.GetAdd().GetAddrs() {
		if a := added.GetAddr(); a.GetIp().GetIpv4() == 192<<24|2<<8|9 {
			c.mu.Lock()
			c.port = int(a.GetPort())
			c.mu.Unlock()
		}
	}
}

// count is how many messages a stream has had, opened again or not.
func (c *clients) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages[name]
}

func (c *clients) time() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.port
}

// ask is the first answer of a new stream, or what it ends with.
func (c *clients) ask(name string) string {
	ctx, cancel := context.WithTimeout(c.t.Context(), tickWithin)
	defer cancel()
	next, err := c.calls[name](ctx)
	var message proto.Message
	if err == nil {
		message, err = next()
	}
	if err != nil {
		return status.Code(err).String()
	}
	return prototext.MarshalOptions{Multiline: true}.Format(message)
}

func (c *clients) answers() map[string]string {
	all := map[string]string{}
	for name := range c.calls {
		all[name] = c.ask(name)
	}
	return all
}

func (c *clients) close() {
	c.cancel()
	c.done.Wait()
}
