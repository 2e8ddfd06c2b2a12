package streaming

import (
	"context"
	"io"
	"net"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// forwarder forwards the ports of one pod for one client.
type forwarder struct {
	target
	// ctx ends when the client has gone.
	ctx context.Context
	// copies are those of what clients say. They end with the connection at the latest.
	copies lifecycle.Group
}

// PortForward copies between a stream of the client and a port, until the pod has
// said all, or the client has gone.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.Dial(f.ctx, f.namespace, f.pod, uint16(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(f.ctx, func() { conn.Close() })
	defer stop()
	f.copies.Go("port-forward to a pod", func() error {
		if _, err := io.Copy(conn, stream); err == nil {
			closeWrite(conn)
		}
		return nil
	})
	_, err = io.Copy(stream, conn)
	if f.ctx.Err() != nil {
		err = nil
	}
	return err
}

// closeWrite tells the other side that nothing more comes, where it can be told.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}
