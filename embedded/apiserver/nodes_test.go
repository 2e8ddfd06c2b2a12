package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	streamed "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet/streaming"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// processes are those of a pod web; other pods have none.
type processes struct {
	log   string
	ended chan struct{}
	// port is what is dialled for port 80.
	port string
	// gone gets a value when the client of an endless command has gone.
	gone chan struct{}
}

func (p *processes) Serves(_, _, pod, _ string) error {
	if pod == "standin" {
		return errors.New("nothing runs in pod standin: it has no program")
	}
	return nil
}

func (p *processes) Log(_, _, _ string, previous bool) (string, <-chan struct{}, error) {
	if previous {
		return "", nil, errors.New("container c in pod web was not restarted")
	}
	return p.log, p.ended, nil
}

func (p *processes) Exec(ctx context.Context, namespace, pod, container string, command []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan streamed.TerminalSize) error {
	switch command[0] {
	case "cat":
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
		fmt.Fprintf(errOut, "%s/%s/%s %v", namespace, pod, container, tty)
	case "exit":
		return exec.CodeExitError{Err: errors.New("exited"), Code: 3}
	case "size":
		size := <-resize
		fmt.Fprintf(out, "%dx%d %v", size.Width, size.Height, tty)
	case "wait":
		fmt.Fprintln(out, "waiting")
		<-ctx.Done()
		p.gone <- struct{}{}
	}
	return nil
}

func (p *processes) Attach(ctx context.Context, namespace, pod, container string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan streamed.TerminalSize) error {
	return p.Exec(ctx, namespace, pod, container, []string{"cat"}, in, out, errOut, tty, resize)
}

func (p *processes) Dial(ctx context.Context, _, _ string, port uint16) (net.Conn, error) {
	if port != 80 {
		return nil, fmt.Errorf("port %d of pod web is closed", port)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", p.port)
}

// nodesCluster is an API server with nodes that serve.
type nodesCluster struct {
	*processes
	config *rest.Config
	client kubernetes.Interface
	// address is that of the nodes' server.
	address string
	keys    *Keys
}

func startNodes(t *testing.T) *nodesCluster {
	t.Helper()
	c := &nodesCluster{processes: &processes{log: filepath.Join(t.TempDir(), "log"), ended: make(chan struct{}), port: echo(t), gone: make(chan struct{}, 1)}}
	var err error
	if c.keys, err = LoadKeys(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = listener.Addr().String()
	nodes, err := c.keys.NewNodes(listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	kubelet := streaming.New(streaming.Config{Backend: c.processes, TLS: nodes.TLS()})
	parts.Start(t, time.Minute, func(ctx context.Context, ready func()) error {
		ready()
		return kubelet.Serve(ctx, listener)
	})
	server := newStoredServer(t, Config{Keys: c.keys, Nodes: nodes, Serves: c.processes.Serves})
	parts.Start(t, 2*time.Minute, server.Run)
	c.config = server.Client()
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	c.populate(t)
	return c
}

// populate makes a node with a name, another with an address alone, and a pod on each.
func (c *nodesCluster) populate(t *testing.T) {
	t.Helper()
	ctx, core := t.Context(), c.client.CoreV1()
	if _, err := core.ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, addresses := range map[string][]corev1.NodeAddress{
		"lite": {{Type: corev1.NodeInternalIP, Address: "10.244.255.254"}, {Type: corev1.NodeHostName, Address: "lite"}},
		"bare": {{Type: corev1.NodeInternalIP, Address: "10.244.255.253"}},
	} {
		node, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Addresses = addresses
		if _, err := core.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for pod, node := range map[string]string{"web": "lite", "standin": "lite", "other": "bare"} {
		mount := false
		if _, err := core.Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod},
			Spec:       corev1.PodSpec{NodeName: node, AutomountServiceAccountToken: &mount, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// echo listens, says what it hears in capitals, and ends when the other side does.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				heard, _ := io.ReadAll(conn)
				conn.Write(bytes.ToUpper(heard))
			}()
		}
	}()
	return listener.Addr().String()
}

func (c *nodesCluster) url(pod, subresource string, options *corev1.PodExecOptions) *url.URL {
	request := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name(pod).SubResource(subresource)
	if options != nil {
		request = request.VersionedParams(options, scheme.ParameterCodec)
	}
	return request.URL()
}

// executors are the ways of kubectl to run a command, by protocol.
func (c *nodesCluster) executors(t *testing.T, at *url.URL) map[string]remotecommand.Executor {
	t.Helper()
	old, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	newer, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, at.String())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": old, "WebSocket": newer}
}

// sizes is a terminal that keeps its size.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// What kubectl asks of the processes of pods reaches them, in each of its protocols, by the API server.
func TestNodes(t *testing.T) {
	c := startNodes(t)
	t.Run("exec", c.testExec)
	t.Run("terminal", c.testTerminal)
	t.Run("client that goes", c.testGone)
	t.Run("port-forward", c.testPortForward)
	t.Run("logs", c.testLogs)
	t.Run("pod without process", c.testStandIn)
	t.Run("strangers", c.testStrangers)
}

func (c *nodesCluster) testExec(t *testing.T) {
	for _, pod := range []string{"web", "other"} {
		for _, subresource := range []string{"exec", "attach"} {
			at := c.url(pod, subresource, &corev1.PodExecOptions{Container: "c", Command: []string{"cat"}, Stdin: true, Stdout: true, Stderr: true})
			for protocol, executor := range c.executors(t, at) {
				// More than fits into any buffer on the way.
				text := strings.Repeat("some text\n", 100_000)
				var out, errOut bytes.Buffer
				err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errOut})
				if err != nil || out.String() != text || errOut.String() != "default/"+pod+"/c false" {
					t.Errorf("%s of %s by %s: %d bytes, %q, %v", subresource, pod, protocol, out.Len(), errOut.String(), err)
				}
			}
		}
	}
	for protocol, executor := range c.executors(t, c.url("web", "exec", &corev1.PodExecOptions{Container: "c", Command: []string{"exit"}, Stdout: true})) {
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		var code exec.CodeExitError
		if !errors.As(err, &code) || code.Code != 3 {
			t.Errorf("end of a command by %s: %v", protocol, err)
		}
	}
}

func (c *nodesCluster) testTerminal(t *testing.T) {
	at := c.url("web", "exec", &corev1.PodExecOptions{Container: "c", Command: []string{"size"}, Stdin: true, Stdout: true, TTY: true})
	for protocol, executor := range c.executors(t, at) {
		var out bytes.Buffer
		size := make(sizes, 1)
		size <- remotecommand.TerminalSize{Width: 120, Height: 40}
		input, end := io.Pipe()
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: input, Stdout: &out, Tty: true, TerminalSizeQueue: size})
		end.Close()
		close(size)
		if err != nil || out.String() != "120x40 true" {
			t.Errorf("by %s: %q, %v", protocol, out.String(), err)
		}
	}
}

// The API server does not tell of a client of the newer protocol before something is written to it.
func (c *nodesCluster) testGone(t *testing.T) {
	at := c.url("web", "exec", &corev1.PodExecOptions{Container: "c", Command: []string{"wait"}, Stdout: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	defer read.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- c.executors(t, at)["SPDY"].StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: write})
	}()
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || line != "waiting\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	select {
	case <-c.gone:
	case <-time.After(time.Minute):
		t.Error("the command does not learn that its client has gone")
	}
	<-ended
}

// forward forwards ports as kubectl does.
func (c *nodesCluster) forward(t *testing.T, protocol, pod string, ports ...string) (forwarder *portforward.PortForwarder, ready, stop chan struct{}) {
	t.Helper()
	at := c.url(pod, "portforward", nil)
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	if protocol == "WebSocket" {
		if dialer, err = portforward.NewSPDYOverWebsocketDialer(at, c.config); err != nil {
			t.Fatal(err)
		}
	}
	ready, stop = make(chan struct{}), make(chan struct{})
	forwarder, err = portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, ports, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return forwarder, ready, stop
}

func (c *nodesCluster) testPortForward(t *testing.T) {
	for _, protocol := range []string{"SPDY", "WebSocket"} {
		forwarder, ready, stop := c.forward(t, protocol, "web", "0:80", "0:81")
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatalf("by %s: %v", protocol, err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if heard := say(t, ports[0].Local, "hello"); heard != "HELLO" {
				t.Errorf("by %s: %q", protocol, heard)
			}
		}
		if heard := say(t, ports[1].Local, "hello"); heard != "" {
			t.Errorf("a closed port says %q", heard)
		}
		close(stop)
		// A port that is closed ends the forwarding, as with any kubelet.
		<-ended
	}
}

// say sends text to a port of this machine, and returns the answer.
func say(t *testing.T, port uint16, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, text)
	conn.(*net.TCPConn).CloseWrite()
	heard, _ := io.ReadAll(conn)
	return string(heard)
}

func (c *nodesCluster) testLogs(t *testing.T) {
	pods := c.client.CoreV1().Pods("default")
	if err := os.WriteFile(c.log, []byte("2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stderr F two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := int64(1)
	text, err := pods.GetLogs("web", &corev1.PodLogOptions{TailLines: &lines, Timestamps: true}).DoRaw(t.Context())
	if err != nil || string(text) != "2026-01-01T00:00:02.000000000Z two\n" {
		t.Errorf("last line is %q, %v", text, err)
	}
	if _, err := pods.GetLogs("web", &corev1.PodLogOptions{Previous: true}).Stream(t.Context()); err == nil || err.Error() != "container c in pod web was not restarted" {
		t.Errorf("without a previous container: %v", err)
	}
	stream, err := pods.GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	followed := bufio.NewReader(stream)
	expect := func(want string) {
		t.Helper()
		if line, err := followed.ReadString('\n'); err != nil || line != want {
			t.Fatalf("line is %q instead of %q, %v", line, want, err)
		}
	}
	expect("one\n")
	expect("two\n")
	file, err := os.OpenFile(c.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fmt.Fprintln(file, "2026-01-01T00:00:03Z stdout F three")
	expect("three\n")
	close(c.ended)
	if rest, err := io.ReadAll(followed); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}

func (c *nodesCluster) testStandIn(t *testing.T) {
	const want = "nothing runs in pod standin: it has no program"
	if _, err := c.client.CoreV1().Pods("default").GetLogs("standin", &corev1.PodLogOptions{}).Stream(t.Context()); err == nil || err.Error() != want {
		t.Errorf("log: %v", err)
	}
	at := c.url("standin", "exec", &corev1.PodExecOptions{Container: "c", Command: []string{"cat"}, Stdout: true})
	if err := c.executors(t, at)["SPDY"].StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
		t.Errorf("exec: %v", err)
	}
	forwarder, _, _ := c.forward(t, "SPDY", "standin", "0:80")
	if err := forwarder.ForwardPorts(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("port-forward: %v", err)
	}
}

// Nobody but the API server gets an answer of the nodes' server.
func (c *nodesCluster) testStrangers(t *testing.T) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.keys.CA())
	admin, err := tls.X509KeyPair(c.config.CertData, c.config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	for who, certificates := range map[string][]tls.Certificate{"nobody": nil, "an administrator": {admin}} {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "lite", Certificates: certificates}}}
		response, err := client.Get("https://" + c.address + "/containerLogs/default/web/c")
		if err == nil {
			response.Body.Close()
			t.Errorf("%s gets %s", who, response.Status)
		} else if !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%s: %v", who, err)
		}
	}
}
