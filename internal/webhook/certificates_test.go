package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// leaf is the certificate that a server presents, after it was verified for a name.
func leaf(t *testing.T, server *Server, name string, now time.Time) *x509.Certificate {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CABundle())
	conn, err := tls.Dial("tcp", server.config.Listener.Addr().String(), &tls.Config{
		RootCAs: pool, ServerName: name, Time: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

func TestCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "webhook")
	var now atomic.Pointer[time.Time]
	set := func(at time.Time) { now.Store(&at) }
	set(time.Now())
	const name = "linkerd-sp-validator.linkerd.svc"
	var replaced atomic.Int32
	config := Config{
		Dir: dir, Replaced: func() { replaced.Add(1) },
		DNSNames: []string{name}, Now: func() time.Time { return *now.Load() },
		Endpoints: []Endpoint{{Name: "a", Path: "/", Review: reviewName}},
	}
	first := start(t, config)
	certificate := leaf(t, first, name, *now.Load())
	leaf(t, first, "127.0.0.1", *now.Load())
	for _, file := range []string{authorityCertFile, authorityKeyFile, certFile, keyFile} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}

	t.Run("kept over a restart", func(t *testing.T) {
		second := start(t, config)
		if string(second.CABundle()) != string(first.CABundle()) {
			t.Error("another authority")
		}
		if !leaf(t, second, name, *now.Load()).Equal(certificate) {
			t.Error("another certificate")
		}
	})
	// expectReplaced says how many certificates must have been reported as new since it was called last.
	expectReplaced := func(t *testing.T, want int32) {
		t.Helper()
		if got := replaced.Swap(0); got != want {
			t.Errorf("%d certificates reported as new, want %d", got, want)
		}
	}
	rulebook.Run(t, "A05 P312 an exchanged file is served", func(t *testing.T) {
		second := start(t, config)
		expectReplaced(t, 0)
		other := newCertificates("", config.DNSNames, config.Now, first.config.Log)
		if err := other.load(); err != nil {
			t.Fatal(err)
		}
		other.authority = second.certificates.authority
		exchanged, err := other.issue(other.authority)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.certificates.write(exchanged, certFile, keyFile); err != nil {
			t.Fatal(err)
		}
		if !leaf(t, second, name, *now.Load()).Equal(exchanged.leaf) {
			t.Error("the old certificate is served")
		}
		expectReplaced(t, 1)
		if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !leaf(t, second, name, *now.Load()).Equal(exchanged.leaf) {
			t.Error("the certificate changed with a bad key")
		}
		expectReplaced(t, 0)
	})
	t.Run("a bad pair is replaced at start", func(t *testing.T) {
		leaf(t, start(t, config), name, *now.Load())
	})
	t.Run("renewed in the last third of its life", func(t *testing.T) {
		set(now.Load().Add(lifetime / 2))
		second := start(t, config)
		before := leaf(t, second, name, *now.Load())
		set(now.Load().Add(lifetime / 3))
		after := leaf(t, second, name, *now.Load())
		if after.Equal(before) {
			t.Error("not renewed")
		}
		expectReplaced(t, 1)
		if string(second.CABundle()) != string(first.CABundle()) {
			t.Error("another authority")
		}
	})
	t.Run("another name", func(t *testing.T) {
		config := config
		config.DNSNames = []string{"linkerd-sp-validator.other.svc"}
		leaf(t, start(t, config), config.DNSNames[0], *now.Load())
	})
	t.Run("a clock in the past", func(t *testing.T) {
		set(time.Now().Add(-2 * authorityLifetime))
		leaf(t, start(t, config), name, *now.Load())
	})
}
