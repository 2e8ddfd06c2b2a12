package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	destinationpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

const (
	stopStreams = 50
	stopWatches = 50
	// stopLimit is the target of a stop with open streams and watches.
	stopLimit = time.Second
)

// A stop takes at most a second, whatever is open, and what is open ends.
func TestStopWithOpenStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	rulebook.Covers(t, "B51")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "web.yaml"), endpoints(1))
	p := launch(t, filepath.Join(t.TempDir(), "d"), dir)
	p.wait(t)

	var open, ended sync.WaitGroup
	for range stopStreams {
		open.Add(1)
		ended.Go(func() {
			stream := get(t, t.Context(), p)
			_, err := stream.Recv()
			open.Done()
			for err == nil {
				_, err = stream.Recv()
			}
		})
	}
	client := p.client(t)
	for range stopWatches {
		watch, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			for range watch.ResultChan() {
			}
		})
	}
	open.Wait()
	took := p.stop(t, syscall.SIGTERM)
	t.Logf("%d streams, %d watches: stopped in %v", stopStreams, stopWatches, took)
	if took > eventually.Allowed(stopLimit) {
		t.Errorf("the stop took %v, more than %v\n%s", took, stopLimit, p.output.Bytes())
	}
	ended.Wait()
	if strings.Contains(p.output.String(), "did not stop") {
		t.Error(p.output.String())
	}
}

// endpoints is a manifest with a Service and a slice with the nth address.
func endpoints(n int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-a
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- addresses: [%s]
  conditions: {ready: true}
`, address(n))
}

func address(n int) string { return fmt.Sprintf("10.244.%d.%d", 100+n/250, 1+n%250) }

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get opens a Get stream for the Service web, on a connection of its own.
func get(t testing.TB, ctx context.Context, p *process) destinationpb.Destination_GetClient {
	conn, err := grpc.NewClient(p.info.Addresses["destination"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	stream, err := destinationpb.NewDestinationClient(conn).Get(ctx, &destinationpb.GetDestination{Scheme: "k8s", Path: "web.default.svc.cluster.local:80"})
	if err != nil {
		t.Error(err)
		return nil
	}
	return stream
}
