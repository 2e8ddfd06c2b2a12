// Package load measures a gRPC server in a process of its own.
package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/grpcserver"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// shapeVariable is the environment variable that tells a test binary to serve,
// and of what shape the cluster is to be.
const shapeVariable = "LOAD_SERVER_SHAPE"

// Main is for TestMain, which exits with its result. It runs the tests, but in
// a process that Start has started it serves, until Answer ends.
func Main[Shape any](m *testing.M, serve func(Shape) error) int {
	text, serves := os.LookupEnv(shapeVariable)
	if !serves {
		return m.Run()
	}
	var shape Shape
	err := json.Unmarshal([]byte(text), &shape)
	if err == nil {
		err = serve(shape)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve load:", err)
		return 1
	}
	return 0
}

// Listen serves on a port of loopback until stop, which waits for the end.
func Listen(server *grpcserver.Server, graph *view.Graph) (addr string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = graph.Run(ctx) })
	running.Go(func() { _ = server.Serve(ctx, listener) })
	return listener.Addr().String(), func() { cancel(); running.Wait() }, nil
}

// Usage is what a server says of itself.
type Usage struct {
	// HeapLive is what the last collection left, Stacks the memory of stacks, in bytes.
	HeapLive, Stacks int64
	// Views is how many views are held.
	Views int
	// At is when the server was asked, in Unix nanoseconds.
	At int64
}

// ReadUsage reads the memory of this process. It does not stop the world, as
// runtime.ReadMemStats does: that is seen in the times that changes take.
func ReadUsage() Usage {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	return Usage{HeapLive: int64(samples[0].Value.Uint64()), Stacks: int64(samples[1].Value.Uint64())}
}

// Memory reads what is in use in this process after a collection.
func Memory() runtime.MemStats {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}

// Answer says on standard output where the server listens. For each line of
// standard input it then carries out the command, "gc" by itself, and says what
// usage makes of the process's Usage.
func Answer(addr string, command func(words []string), usage func(Usage) any) error {
	fmt.Println(addr)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		at := time.Now().UnixNano()
		if words := strings.Fields(in.Text()); words[0] == "gc" {
			runtime.GC()
			debug.FreeOSMemory()
		} else {
			command(words)
		}
		u := ReadUsage()
		u.At = at
		line, err := json.Marshal(usage(u))
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return in.Err()
}
