package dataplane_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// An answer of gRPC that is all in its header keeps its status: clients take
// one for it only if the header's frame is the last.
func TestTrailersOnly(t *testing.T) {
	m := newMesh(t)
	m.simple("web", "10.1.0.2:8080")
	m.pod("web", "10.1.0.2")
	l := m.listen()
	server := grpc.NewServer()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	m.app("10.1.0.2:8080", l.Addr().String())
	client := m.pod("client", "10.1.0.1")
	cc, err := grpc.NewClient("passthrough:///10.96.0.1:80", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return client.connect(ctx, addr) }))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 100 {
				err := cc.Invoke(t.Context(), "/no/Such", &emptypb.Empty{}, &emptypb.Empty{})
				if status.Code(err) != codes.Unimplemented {
					t.Errorf("of a method that is not there: %v", err)
					return
				}
			}
		})
	}
	calls.Wait()
}
