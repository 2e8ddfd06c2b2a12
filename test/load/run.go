package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// Run is a server process and its clients, which decode nothing.
type Run struct {
	tb        testing.TB
	in        io.Writer
	out       *bufio.Scanner
	conns     []*grpc.ClientConn
	streams   []*stream
	receiving sync.WaitGroup
	// due is how many streams are yet to hear of what heard waits for.
	due   atomic.Int64
	heard chan struct{}
}

// stream counts messages, and knows when the last one came, in Unix nanoseconds.
type stream struct {
	due            atomic.Bool
	messages, last atomic.Int64
}

// Start starts the test binary again as a server of that shape, see Main, with
// so many connections to it. They end with the test, if not before.
func Start(tb testing.TB, shape any, conns int) *Run {
	tb.Helper()
	text, err := json.Marshal(shape)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), shapeVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	r := &Run{tb: tb, in: in, out: bufio.NewScanner(out), heard: make(chan struct{}, 1)}
	tb.Cleanup(func() {
		r.Close()
		in.Close()
		_ = cmd.Wait()
	})
	addr := r.line()
	for range conns {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
		if err != nil {
			tb.Fatal(err)
		}
		r.conns = append(r.conns, conn)
	}
	return r
}

// Close closes the connections, and so ends the streams.
func (r *Run) Close() {
	for _, c := range r.conns {
		c.Close()
	}
	r.receiving.Wait()
}

func (r *Run) line() string {
	r.tb.Helper()
	if !r.out.Scan() {
		r.tb.Fatal("the server is gone", r.out.Err())
	}
	return r.out.Text()
}

// Tell gives a command and returns what the server says.
func (r *Run) Tell(command string) Usage {
	r.tb.Helper()
	var u Usage
	r.Ask(command, &u)
	return u
}

// Ask is Tell for servers that say more.
func (r *Run) Ask(command string, into any) {
	r.tb.Helper()
	fmt.Fprintln(r.in, command)
	if err := json.Unmarshal([]byte(r.line()), into); err != nil {
		r.tb.Fatal(err)
	}
}

// Open opens so many streams of a method, and returns how long it took until
// each had had a message.
func (r *Run) Open(count int, method string, request func(i int) proto.Message) time.Duration {
	r.tb.Helper()
	start := time.Now()
	for range count {
		r.streams = append(r.streams, &stream{})
	}
	r.expect(r.streams)
	for i, s := range r.streams {
		text, err := proto.Marshal(request(i))
		if err != nil {
			r.tb.Fatal(err)
		}
		conn := r.conns[i%len(r.conns)]
		r.receiving.Go(func() { r.receive(s, conn, method, text) })
	}
	r.await("every stream is filled")
	return time.Since(start)
}

func (r *Run) receive(s *stream, conn *grpc.ClientConn, method string, request []byte) {
	client, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil || client.SendMsg(&request) != nil || client.CloseSend() != nil {
		return
	}
	var message []byte
	for client.RecvMsg(&message) == nil {
		s.last.Store(time.Now().UnixNano())
		s.messages.Add(1)
		if s.due.Swap(false) && r.due.Add(-1) == 0 {
			r.heard <- struct{}{}
		}
	}
}

// Change gives a command that affects some streams, and returns how long it
// took until the last of them knew. The others must hear nothing.
func (r *Run) Change(command string, affects func(i int) bool) time.Duration {
	r.tb.Helper()
	before := make([]int64, len(r.streams))
	var affected []*stream
	for i, s := range r.streams {
		before[i] = s.messages.Load()
		if affects(i) {
			affected = append(affected, s)
		}
	}
	r.expect(affected)
	at := r.Tell(command).At
	r.await("every affected stream knows")
	var last int64
	for _, s := range affected {
		last = max(last, s.last.Load())
	}
	for i, s := range r.streams {
		if got := s.messages.Load() - before[i]; !affects(i) && got != 0 {
			r.tb.Fatalf("stream %d is not affected by %q but had %d messages", i, command, got)
		}
	}
	return time.Duration(last - at)
}

// expect is called before what streams are to hear of, await after.
func (r *Run) expect(streams []*stream) {
	r.due.Store(int64(len(streams)))
	for _, s := range streams {
		s.due.Store(true)
	}
}

func (r *Run) await(what string) {
	r.tb.Helper()
	select {
	case <-r.heard:
	case <-time.After(eventually.Patience):
		r.tb.Fatalf("waited in vain until %s: %d do not", what, r.due.Load())
	}
}

// Messages is how many have come so far.
func (r *Run) Messages() (sum int64) {
	for _, s := range r.streams {
		sum += s.messages.Load()
	}
	return sum
}

// WaitUntilIdle waits until the server holds no views.
func (r *Run) WaitUntilIdle() {
	r.tb.Helper()
	eventually.Holds(r.tb, "all streams are gone", func() bool { return r.Tell("stat").Views == 0 }, nil)
}

// ReportMemory reports what each of so many streams costs.
func ReportMemory(b *testing.B, before, after Usage, streams int) {
	b.ReportMetric(float64(after.HeapLive-before.HeapLive)/1024/float64(streams), "live-KiB/stream")
	b.ReportMetric(float64(after.Stacks-before.Stacks)/1024/float64(streams), "stack-KiB/stream")
}

// Percentile is a percentile of what took so long, in milliseconds.
func Percentile(took []time.Duration, percent int) float64 {
	return float64(slices.Sorted(slices.Values(took))[len(took)*percent/100].Microseconds()) / 1000
}

// rawCodec hands messages through as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append((*v.(*[]byte))[:0], b...)
	return nil
}
func (rawCodec) Name() string { return "proto" }
