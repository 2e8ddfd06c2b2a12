package e2e

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	destinationpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// saveOthers is the number of other objects in the directory.
const saveOthers = 1000

// BenchmarkSave measures the time from the save of a file to the message on an
// open Get stream. Run it with -benchtime 200x.
func BenchmarkSave(b *testing.B) {
	dir := b.TempDir()
	var others strings.Builder
	for n := range saveOthers {
		fmt.Fprintf(&others, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other-%d}\ndata: {a: b}\n---\n", n)
	}
	writeFile(b, filepath.Join(dir, "others.yaml"), others.String())
	file := filepath.Join(dir, "web.yaml")
	writeFile(b, file, endpoints(0))
	p := launch(b, filepath.Join(b.TempDir(), "d"), dir)
	p.wait(b)
	stream := get(b, b.Context(), p)
	follow(b, stream, address(0))

	var took []time.Duration
	n := 0
	for b.Loop() {
		n++
		begin := time.Now()
		writeFile(b, file, endpoints(n))
		follow(b, stream, address(n))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	p.stop(b, syscall.SIGTERM)
}

// follow reads the stream until it adds the address.
func follow(b *testing.B, stream destinationpb.Destination_GetClient, want string) {
	b.Helper()
	for {
		update, err := stream.Recv()
		if err != nil {
			b.Fatal(err)
		}
		for _, added := range update.GetAdd().GetAddrs() {
			var raw [4]byte
			binary.BigEndian.PutUint32(raw[:], added.GetAddr().GetIp().GetIpv4())
			if netip.AddrFrom4(raw).String() == want {
				return
			}
		}
	}
}
