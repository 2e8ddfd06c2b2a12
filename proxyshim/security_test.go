package proxyshim_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// Each attempt is refused, counted, logged, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	// tlsTo makes an attempt by TLS.
	tlsTo := func(addr func(*fixture) string, name string, certificate func(*testing.T, *fixture) *tls.Certificate, change func(*tls.Config)) func(*testing.T, *fixture) net.Conn {
		return func(t *testing.T, f *fixture) net.Conn {
			raw := dialTCP(t, addr(f))
			config := &tls.Config{ServerName: name, RootCAs: f.anchors}
			if certificate != nil {
				config.Certificates = []tls.Certificate{*certificate(t, f)}
			}
			if change != nil {
				change(config)
			}
			conn := tls.Client(raw, config)
			_ = conn.Handshake() // what went wrong is the server's to say
			return conn
		}
	}
	destinationAddr := func(f *fixture) string { return f.addr[destinationPort] }
	identityAddr := func(f *fixture) string { return f.addr[identityPort] }
	directAddr := func(f *fixture) string { return f.direct }
	leaf := func(notBefore, notAfter time.Time, names ...string) func(*testing.T, *fixture) *tls.Certificate {
		return func(t *testing.T, f *fixture) *tls.Certificate {
			c := f.ca.Leaf(t, notBefore, notAfter, names...)
			return &c
		}
	}
	good := leaf(now.Add(-time.Minute), now.Add(day), webName)
	foreign := func(t *testing.T, _ *fixture) *tls.Certificate {
		c := identitytest.NewCA(t, "foreign", now.Add(day), nil).Leaf(t, now.Add(-time.Minute), now.Add(day), webName)
		return &c
	}
	serversOnly := func(t *testing.T, f *fixture) *tls.Certificate {
		c := f.ca.Issue(t, &x509.Certificate{NotBefore: now.Add(-day), NotAfter: now.Add(day), DNSNames: []string{webName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return &c
	}
	bytesTo := func(addr func(*fixture) string, b []byte) func(*testing.T, *fixture) net.Conn {
		return func(t *testing.T, f *fixture) net.Conn {
			c := dialTCP(t, addr(f))
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
			return c
		}
	}
	offer := func(protocols ...string) func(*tls.Config) {
		return func(c *tls.Config) { c.NextProtos = protocols }
	}
	// header sends b behind a good handshake on the direct path.
	header := func(b []byte) func(*testing.T, *fixture) net.Conn {
		return func(t *testing.T, f *fixture) net.Conn {
			c := tlsTo(directAddr, destinationName, good, offer(proxyshim.ALPN))(t, f)
			_, _ = c.Write(b) // the server may close before it has read all
			return c
		}
	}
	// trickle never stops to send a handshake, and never completes it.
	trickle := func(addr func(*fixture) string) func(*testing.T, *fixture) net.Conn {
		return func(t *testing.T, f *fixture) net.Conn {
			c := dialTCP(t, addr(f))
			if _, err := c.Write([]byte{0x16, 3, 1, 0x20, 0, 1, 0, 0x1f, 0xfc}); err != nil {
				t.Fatal(err)
			}
			ticker := time.NewTicker(20 * time.Millisecond)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer ticker.Stop()
				for range ticker.C {
					if _, err := c.Write([]byte{3}); err != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { c.Close(); <-ended })
			return c
		}
	}
	random := make([]byte, 4096)
	_, _ = rand.Read(random)
	random[0] = 0x80 // neither TLS nor HTTP/2 by chance

	for _, test := range []struct {
		name, reason string
		port         string
		attempt      func(*testing.T, *fixture) net.Conn
		log          string
	}{
		{"no client certificate", "no client certificate", "8086", tlsTo(destinationAddr, destinationName, nil, nil), ""},
		{"certificate of another anchor", "client certificate of an unknown authority", "8086", tlsTo(destinationAddr, destinationName, foreign, nil), webName},
		{"expired certificate (B71)", "client certificate expired", "8086", tlsTo(destinationAddr, destinationName, leaf(now.Add(-2*day), now.Add(-day), webName), nil), "not after " + now.Add(-day).UTC().Format(time.RFC3339)},
		{"certificate not yet valid (B71)", "client certificate not yet valid", "8086", tlsTo(destinationAddr, destinationName, leaf(now.Add(day), now.Add(2*day), webName), nil), "not before " + now.Add(day).UTC().Format(time.RFC3339)},
		{"certificate without a name", "client certificate invalid", "8086", tlsTo(destinationAddr, destinationName, leaf(now.Add(-day), now.Add(day)), nil), ""},
		{"certificate for servers only", "client certificate invalid", "8086", tlsTo(destinationAddr, destinationName, serversOnly, nil), ""},
		{"identity: a bad certificate is worse than none", "client certificate of an unknown authority", "8080", tlsTo(identityAddr, identityName, foreign, nil), ""},
		{"wrong server name", "server name", "8086", tlsTo(destinationAddr, "example.com", good, nil), "example.com"},
		{"server name of another port", "server name", "8080", tlsTo(identityAddr, destinationName, good, nil), ""},
		{"no server name", "server name", "8086", tlsTo(destinationAddr, "", good, func(c *tls.Config) { c.InsecureSkipVerify = true }), ""},
		{"TLS 1.2", "TLS version", "8086", tlsTo(destinationAddr, destinationName, good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), ""},
		{"plaintext on an open listener", "plaintext not from loopback", "8086", bytesTo(func(f *fixture) string { return f.open }, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), ""},
		{"C20: plaintext on the direct path", "plaintext on the direct path", "4143", bytesTo(directAddr, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")), ""},
		{"C20: HTTP/1", "neither TLS nor HTTP/2", "8086", bytesTo(destinationAddr, []byte("GET / HTTP/1.1\r\n\r\n")), `begins with \"GET /`},
		{"random bytes", "neither TLS nor HTTP/2", "8086", bytesTo(destinationAddr, random), ""},
		{"random bytes on the direct path", "neither TLS nor HTTP/2", "4143", bytesTo(directAddr, random), ""},
		{"random bytes in a TLS record", "TLS handshake failed", "8086", bytesTo(destinationAddr, append([]byte{0x16, 3, 1, 2, 0, 1}, random...)), ""},
		{"half-open handshake", "handshake timeout", "8086", bytesTo(destinationAddr, []byte{0x16, 3, 1}), ""},
		{"half-open handshake on the direct path", "handshake timeout", "4143", bytesTo(directAddr, []byte{0x16, 3, 1, 2, 0, 1, 0}), ""},
		{"handshake of a byte now and then", "handshake timeout", "8086", trickle(destinationAddr), ""},
		{"handshake of a byte now and then on the direct path", "handshake timeout", "4143", trickle(directAddr), ""},
		{"nothing at all", "handshake timeout", "8086", bytesTo(destinationAddr, nil), ""},
		{"direct path without a client certificate", "no client certificate", "4143", tlsTo(directAddr, destinationName, nil, offer(proxyshim.ALPN)), ""},
		{"direct path to identity without a client certificate", "no client certificate", "4143", tlsTo(directAddr, identityName, nil, offer(proxyshim.ALPN)), ""},
		{"direct path without ALPN", "application protocol", "4143", tlsTo(directAddr, destinationName, good, nil), ""},
		{"direct path with another ALPN", "application protocol", "4143", tlsTo(directAddr, destinationName, good, offer("h2")), "h2"},
		{"header of 64 KiB", "transport header too large", "4143", header(append([]byte(proxyshim.ALPN+"\r\n\r\n\x00\x01\x00\x00"), make([]byte, 1<<16)...)), ""},
		{"no header", "transport header invalid", "4143", header([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n    ")), ""},
		{"half a header", "handshake timeout", "4143", header([]byte(proxyshim.ALPN)), ""},
		{"header for an unknown port", "transport header target", "4143", header(proxyshim.AppendHeader(nil, proxyshim.Header{Port: 9999})), "9999"},
		{"header for a port of another name", "transport header target", "4143", header(proxyshim.AppendHeader(nil, proxyshim.Header{Port: identityPort})), ""},
		{"header for a gateway", "transport header target", "4143", header(proxyshim.AppendHeader(nil, proxyshim.Header{Port: destinationPort, Name: "web"})), "gateway"},
		{"header with HTTP/1", "transport header target", "4143", header(proxyshim.AppendHeader(nil, proxyshim.Header{Port: destinationPort, Protocol: proxyshim.HTTP1})), ""},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			f := start(t, options{timeout: 300 * time.Millisecond, strict: true})
			conn := test.attempt(t, f)
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(eventually.Patience))
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "i/o timeout") {
				t.Errorf("the connection was not closed: %v", err)
			}
			f.eventually("the refusal to be counted", func() bool {
				return f.metric("inbound_tcp_errors_total", map[string]string{"error": test.reason, "target_port": test.port}) == 1
			})
			if got := f.metric("inbound_tcp_errors_total", nil); got != 1 {
				t.Errorf("%v refusals are counted, want 1", got)
			}
			f.eventually("a log line", func() bool {
				log := f.log.String()
				return strings.Contains(log, "connection refused") && strings.Contains(log, test.reason) && strings.Contains(log, test.log)
			})
			f.eventually("goroutines to end", func() bool {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				return !bytes.Contains(stacks, []byte(").ServerHandshake(")) && !bytes.Contains(stacks, []byte("(*direct).handle("))
			})
			if got := f.metric("tcp_open_connections", nil); got != 0 {
				t.Errorf("%v connections count as open", got)
			}
		})
	}
}

// A client's identity may be a URI, as those of ExternalWorkloads are.
func TestClientOfURI(t *testing.T) {
	f := start(t, options{})
	id := &url.URL{Scheme: "spiffe", Host: "root.linkerd.cluster.local", Path: "/vm"}
	certificate := f.ca.Issue(t, &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{id}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	conn := tls.Client(dialTCP(t, f.addr[destinationPort]), &tls.Config{ServerName: destinationName, RootCAs: f.anchors, Certificates: []tls.Certificate{certificate}})
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	f.eventually("the connection to be counted", func() bool {
		return f.metric("tcp_open_total", map[string]string{"client_id": id.String(), "target_port": "8086"}) == 1
	})
}

func dialTCP(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Who only looks whether a port is open is neither counted nor logged.
func TestProbeIsNoRefusal(t *testing.T) {
	f := start(t, options{})
	for _, addr := range []string{f.addr[destinationPort], f.direct} {
		dialTCP(t, addr).Close()
	}
	f.stop()
	if got := f.metric("inbound_tcp_errors_total", nil); got != 0 {
		t.Errorf("%v refusals are counted; log:\n%s", got, f.log)
	}
}

// A stop does not wait for handshakes that never end.
func TestStopWithHalfOpenConnections(t *testing.T) {
	f := start(t, options{})
	web := f.web()
	for _, addr := range []string{f.addr[destinationPort], f.addr[identityPort], f.direct} {
		c := dialTCP(t, addr)
		if _, err := c.Write([]byte{0x16, 3, 1}); err != nil {
			t.Fatal(err)
		}
	}
	cc := f.dial(meshclient.Target{Addr: f.direct, ServerName: destinationName, Identity: web, DirectPort: destinationPort})
	stream, err := get(t, cc)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	f.stop()
	if took := time.Since(begin); took > eventually.Allowed(500*time.Millisecond) {
		t.Errorf("the stop took %v", took)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("the stream ended with %v, want OK", err)
	}
}
