package streaming

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	clientcommand "k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// endless has a command that ends with its client, and a port that says nothing.
type endless struct {
	Backend
	gone   chan struct{}
	dialed chan net.Conn
}

func (e *endless) Serves(string, string, string, string) error { return nil }

func (e *endless) Exec(ctx context.Context, _, _, _ string, _ []string, _ io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintln(out, "begun")
	<-ctx.Done()
	close(e.gone)
	return ctx.Err()
}

func (e *endless) Dial(context.Context, string, string, uint16) (net.Conn, error) {
	near, far := net.Pipe()
	e.dialed <- far
	return near, nil
}

// A command learns that its client has gone, also if it says nothing.
func TestClientGoes(t *testing.T) {
	b := &endless{gone: make(chan struct{})}
	server := serveTest(t, b)
	at, err := url.Parse(server.URL + "/exec/ns/pod/c?output=1&command=wait")
	if err != nil {
		t.Fatal(err)
	}
	executor, err := clientcommand.NewSPDYExecutor(&rest.Config{Host: server.URL}, http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	defer read.Close()
	ended := make(chan error, 1)
	go func() { ended <- executor.StreamWithContext(ctx, clientcommand.StreamOptions{Stdout: write}) }()
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || line != "begun\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	select {
	case <-b.gone:
	case <-time.After(time.Minute):
		t.Error("the command goes on")
	}
	<-ended
}

// A connection to a pod ends with the client, also if neither side says anything.
func TestForwardingClientGoes(t *testing.T) {
	b := &endless{dialed: make(chan net.Conn, 1)}
	server := serveTest(t, b)
	at, err := url.Parse(server.URL + "/portForward/ns/pod")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at),
		[]string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	<-ready
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pod := <-b.dialed
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if said, err := io.ReadAll(pod); err != nil || len(said) > 0 {
		t.Errorf("the pod reads %q, %v", said, err)
	}
}

// What is no request of an API server is refused.
func TestOddRequests(t *testing.T) {
	server := serveTest(t, newLogBackend(t, ""))
	for path, want := range map[string]int{
		"/containerLogs/ns/pod/c?follow=perhaps": http.StatusBadRequest,
		"/containerLogs/ns/pod/c?tailLines=x":    http.StatusBadRequest,
		"/containerLogs/ns/pod":                  http.StatusNotFound,
		"/exec/ns/pod/c":                         http.StatusBadRequest,
		"/exec/ns/pod/c?output=1":                http.StatusBadRequest,
		"/portForward/ns/pod":                    http.StatusBadRequest,
		"/run/ns/pod/c":                          http.StatusNotFound,
		"/pods":                                  http.StatusNotFound,
	} {
		response, err := http.Post(server.URL+path, "", strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}
