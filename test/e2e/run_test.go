package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	pbnet "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pboutbound "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// meshed is a directory with a Deployment of some pods that run until they are ended.
func meshed(t *testing.T, replicas int, marker string) string {
	t.Helper()
	return directory(t, strings.NewReplacer("REPLICAS", strconv.Itoa(replicas), "MARKER", marker).Replace(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {linkerd.io/inject: enabled, lite.linkerd.io/run.web: "sh -c 'setsid sleep MARKER & exec httpd 8080'"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: web, image: web, ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {path: /ready, port: http}}}]
`))
}

// directory is one with this manifest.
func directory(t *testing.T, manifest string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// running counts the processes of this machine that have a word in their command line.
func running(t *testing.T, word string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), word) { // it may have ended
			n++
		}
	}
	return n
}

func needNamespaces(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts clusters")
	}
	if out, err := exec.Command("unshare", "-Urnm", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces can be made here: %v\n%s", err, out)
	}
}

// kill -9 of `up` at any moment leaves no process of its pods, and the next start is
// as any other. E2E_KILLS is the number of rounds.
func TestRunKilled(t *testing.T) {
	needNamespaces(t)
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("E2E_KILLS")); err == nil {
		rounds = n
	}
	marker := strconv.Itoa(1_000_000 + rand.IntN(1_000_000))
	dir, dataDir := meshed(t, 2, marker), filepath.Join(t.TempDir(), "d")
	for range rounds {
		p := launch(t, dataDir, dir, "--run", "--proxy", "builtin")
		time.Sleep(rand.N(killWithin)) // the moment is what is random
		_ = p.cmd.Process.Kill()
		<-p.exited
		eventually.Holds(t, "no process is left", func() bool { return running(t, marker) == 0 }, nil)
	}
	p := launch(t, dataDir, dir, "--run", "--proxy", "builtin")
	p.wait(t)
	eventually.Holds(t, "two pods run", func() bool { return running(t, "sleep\x00"+marker) == 2 }, p.said)
	p.stop(t, syscall.SIGTERM)
	if n := running(t, marker); n > 0 {
		t.Errorf("%d processes are left after a stop", n)
	}
}

// Upstream's own tests and CLI forward a port to a ready pod that they find by its label, and speak
// to the policy API behind port 8090 in the clear.
func TestForwardToDestination(t *testing.T) {
	needNamespaces(t)
	p := launch(t, filepath.Join(t.TempDir(), "d"), meshed(t, 1, "1000"), "--run", "--proxy", "builtin")
	p.wait(t)
	pods, err := p.client(t).CoreV1().Pods("linkerd").List(t.Context(), metav1.ListOptions{LabelSelector: "linkerd.io/control-plane-component=destination"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].Ready != true {
		t.Fatalf("%v, %+v", err, pods)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.info.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target := p.client(t).CoreV1().RESTClient().Post().Resource("pods").Namespace("linkerd").Name(pods.Items[0].Name).SubResource("portforward").URL()
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	stop, ready := make(chan struct{}), make(chan struct{})
	forward, err := portforward.New(dialer, []string{"0:8090"}, stop, ready, io.Discard, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forward.ForwardPorts() }()
	defer func() {
		close(stop)
		<-ended
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forward.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", ports[0].Local), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	web, err := p.client(t).CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr(web.Spec.ClusterIP).As4()
	ip := &pbnet.IPAddress{Ip: &pbnet.IPAddress_Ipv4{Ipv4: binary.BigEndian.Uint32(address[:])}}
	stream, err := pboutbound.NewOutboundPoliciesClient(conn).Watch(t.Context(), &pboutbound.TrafficSpec{
		SourceWorkload: `{"ns":"default","pod":"client"}`, Target: &pboutbound.TrafficSpec_Addr{Addr: &pbnet.TcpAddress{Ip: ip, Port: 80}},
	})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := stream.Recv()
	if err != nil || policy.GetMetadata().GetResource().GetName() != "web" {
		t.Errorf("%v, %v", policy, err)
	}
}
