package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// What is dialled for a node, a pod or a Service is this machine or nothing,
// and no name is looked up.
func TestDialsThisMachineOnly(t *testing.T) {
	rulebook.Covers(t, "B87")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ host, refused string }{
		{"127.0.0.1", ""},
		{"localhost", ""},
		{"::ffff:127.0.0.1", ""},
		{"10.96.77.77", "nothing of this cluster answers there"},
		{"10.244.255.254", "nothing of this cluster answers there"},
		{"fd00:10:96::1", "nothing of this cluster answers there"},
		{"0.0.0.0", "nothing of this cluster answers there"},
		{"lite", "only localhost is reached"},
		{"web.hello.svc", "only localhost is reached"},
		{"LOCALHOST.", "only localhost is reached"},
		{"", "only localhost is reached"},
	} {
		t.Run(row.host, func(t *testing.T) {
			conn, err := new(Server).dialHere(t.Context(), "tcp", net.JoinHostPort(row.host, port))
			if err == nil {
				conn.Close()
			}
			if row.refused == "" && err != nil || row.refused != "" && (err == nil || !strings.Contains(err.Error(), row.refused)) {
				t.Errorf("error is %v, want %q", err, row.refused)
			}
		})
	}
	// Pods can be connected to where they have processes; this machine goes before.
	inside := errors.New("inside")
	server := &Server{config: Config{DialPod: func(context.Context, string, string) (net.Conn, error) { return nil, inside }}}
	if _, err := server.dialHere(t.Context(), "tcp", net.JoinHostPort("10.244.255.254", port)); !errors.Is(err, inside) {
		t.Errorf("a pod is not connected to: %v", err)
	}
	if conn, err := server.dialHere(t.Context(), "tcp", listener.Addr().String()); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
	if _, err := dialKubelet(context.Background(), "tcp", listener.Addr().String()); err == nil {
		t.Error("a kubelet is connected to")
	}
}

// What a kubelet would serve from a process is refused at once, with one
// sentence and a status of its own. The rest passes.
func TestProcessesAreRefused(t *testing.T) {
	rulebook.Covers(t, "C6")
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	elsewhere := func(namespace, pod string) string {
		if namespace != "linkerd" {
			return ""
		}
		return pod + " is elsewhere"
	}
	handler := refuseProcesses(withoutProcesses(elsewhere), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "passed") }))
	const pod, node = "/api/v1/namespaces/ns/pods/web", "/api/v1/nodes/lite"
	for _, row := range []struct{ method, path, refused string }{
		{http.MethodGet, pod + "/log?follow=true", "pods here are objects without a process: there is no log"},
		{http.MethodPost, pod + "/exec?command=ls", "pods here are objects without a process: there is nothing to run a command in"},
		{http.MethodGet, pod + "/exec?command=ls", "pods here are objects without a process: there is nothing to run a command in"},
		{http.MethodPost, pod + "/attach", "pods here are objects without a process: there is nothing to attach to"},
		{http.MethodPost, pod + "/portforward", "pods here are objects without a process: there is no port to forward to"},
		{http.MethodPost, "/api/v1/namespaces/linkerd/pods/linkerd-identity-1/portforward", "pods here are objects without a process: there is no port to forward to; linkerd-identity-1 is elsewhere"},
		{http.MethodGet, node + "/proxy/pods", "nodes here are objects without a kubelet: there is nothing to ask"},
		{http.MethodGet, node + "/proxy", "nodes here are objects without a kubelet: there is nothing to ask"},
		{http.MethodGet, pod, ""},
		{http.MethodGet, pod + "/status", ""},
		{http.MethodPost, pod + "/eviction", ""},
		{http.MethodGet, pod + "/proxy/", ""},
		{http.MethodGet, node, ""},
		{http.MethodGet, "/apis/example.com/v1/namespaces/ns/pods/web/log", ""},
		{http.MethodGet, "/readyz", ""},
	} {
		t.Run(row.method+" "+row.path, func(t *testing.T) {
			request := httptest.NewRequest(row.method, row.path, nil)
			info, err := resolver.NewRequestInfo(request)
			if err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request.WithContext(apirequest.WithRequestInfo(request.Context(), info)))
			body := answer.Body.String()
			if row.refused == "" {
				if body != "passed" {
					t.Errorf("answer %d: %s", answer.Code, body)
				}
				return
			}
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil {
				t.Fatalf("%v in %s", err, body)
			}
			if answer.Code != http.StatusNotImplemented || status.Code != http.StatusNotImplemented || status.Message != row.refused || status.Kind != "Status" {
				t.Errorf("answer %d: %s", answer.Code, body)
			}
		})
	}
}
