// Package webhooktest lets tests ask a webhook as the API server does.
package webhooktest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

// Serve starts a server of one endpoint, which ends with the test, and returns
// what sends it a body by HTTPS and reads its answer. That is safe for
// concurrent use.
func Serve(tb testing.TB, endpoint webhook.Endpoint) func(body []byte) (*admissionv1.AdmissionReview, error) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	apiServer, err := webhook.NewClient()
	if err != nil {
		tb.Fatal(err)
	}
	server, err := webhook.New(webhook.Config{Listener: listener, Client: apiServer, Endpoints: []webhook.Endpoint{endpoint}})
	if err != nil {
		tb.Fatal(err)
	}
	parts.Start(tb, 10*time.Second, server.Run)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CABundle())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{apiServer.TLS()}}, ForceAttemptHTTP2: true}
	tb.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	return func(body []byte) (*admissionv1.AdmissionReview, error) {
		answer, err := client.Post(server.URL(endpoint.Path), "application/json", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("post a review to %s: %s", endpoint.Path, answer.Status)
		}
		review := &admissionv1.AdmissionReview{}
		return review, json.NewDecoder(answer.Body).Decode(review)
	}
}
