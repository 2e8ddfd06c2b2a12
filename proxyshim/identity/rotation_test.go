package identity_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// ca is an authority made by a test.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newCA makes an authority, signed by parent or by itself.
func newCA(t testing.TB, name string, notAfter time.Time, parent *ca) *ca {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: notAfter.Add(-10 * 365 * 24 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	signer := &ca{template, key}
	if parent != nil {
		signer = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{parse(t, der), key}
}

func (c *ca) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// write puts the authority into dir as files of the scheme.
func (c *ca) write(t testing.TB, dir, certName, keyName string, parents ...*ca) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	bundle := c.pem()
	for _, p := range parents {
		bundle = append(bundle, p.pem()...)
	}
	for name, data := range map[string][]byte{certName: bundle, keyName: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runOwn runs a service with an issuer of the user's.
func runOwn(t testing.TB, c clock.WithTicker, issuer, root *ca, scheme identity.Scheme, parents ...*ca) (f *fixture, dir string) {
	t.Helper()
	dir = t.TempDir()
	anchors := filepath.Join(t.TempDir(), "anchors.pem")
	if err := os.WriteFile(anchors, root.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	certName, keyName := "crt.pem", "key.pem"
	if scheme == identity.SchemeKubernetes {
		certName, keyName = "tls.crt", "tls.key"
	}
	issuer.write(t, dir, certName, keyName, parents...)
	return run(t, c, func(config *identity.Config) {
		config.Files = identity.Files{IssuerDir: dir, AnchorsFile: anchors, Scheme: scheme}
	}), dir
}

// I16: a leaf does not outlive its issuer or one of its parents.
func TestLeafIsClamped(t *testing.T) {
	for _, test := range []struct {
		name           string
		issuer, parent time.Duration
		scheme         identity.Scheme
		want           time.Duration
	}{
		{"issuer ends first", time.Hour, 2 * time.Hour, identity.SchemeLinkerd, time.Hour},
		{"parent ends first", 2 * time.Hour, time.Hour, identity.SchemeKubernetes, time.Hour},
		{"neither", 72 * time.Hour, 48 * time.Hour, "", 24*time.Hour + 10*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := newCA(t, "root", start.Add(1000*time.Hour), nil)
			parent := newCA(t, "parent", start.Add(test.parent), root)
			issuer := newCA(t, "issuer", start.Add(test.issuer), parent)
			f, _ := runOwn(t, clocktesting.NewFakeClock(start), issuer, root, test.scheme, parent)
			answer, err := f.Certify(t.Context(), request(t))
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.GetValidUntil().AsTime(); !got.Equal(start.Add(test.want)) {
				t.Errorf("valid until %v, want %v", got, start.Add(test.want))
			}
			chain := answer.GetIntermediateCertificates()
			if len(chain) != 2 || string(chain[0]) != string(issuer.cert.Raw) || string(chain[1]) != string(parent.cert.Raw) {
				t.Errorf("the chain has %d certificates or the wrong order", len(chain))
			}
			if err := verify(t, f, answer, start); err != nil {
				t.Error(err)
			}
		})
	}
}

// An issuer is replaced without a restart, and kept when its successor is no good.
func TestRotation(t *testing.T) {
	end := time.Now().Add(1000 * time.Hour)
	root, other := newCA(t, "root", end, nil), newCA(t, "other root", end, nil)
	first := newCA(t, "first", end, root)
	f, dir := runOwn(t, clock.RealClock{}, first, root, identity.SchemeLinkerd)
	signer := func() string {
		t.Helper()
		answer, err := f.Certify(t.Context(), request(t))
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, answer.GetLeafCertificate()).Issuer.CommonName
	}
	event := func(want string) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case e := <-f.events.Events:
				if strings.Contains(e, want) {
					return
				}
			case <-deadline:
				t.Fatalf("waited in vain for event %s; log:\n%s", want, f.log)
			}
		}
	}
	if got := signer(); got != "first" {
		t.Fatalf("signed by %q", got)
	}
	newCA(t, "foreign", end, other).write(t, dir, "crt.pem", "key.pem")
	event("Warning IssuerUpdateSkipped")
	if got := signer(); got != "first" {
		t.Errorf("I15: signed by %q after a bad update", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "crt.pem"), []byte("trash"), 0o600); err != nil {
		t.Fatal(err)
	}
	event("Warning IssuerUpdateSkipped")
	newCA(t, "second", end, root).write(t, dir, "crt.pem", "key.pem")
	event("Normal IssuerUpdated")
	if got := signer(); got != "second" {
		t.Errorf("signed by %q after a good update", got)
	}
}

// The kubelet replaces a mounted Secret by renaming a symbolic link.
func TestRotationBySymlink(t *testing.T) {
	end := time.Now().Add(1000 * time.Hour)
	root := newCA(t, "root", end, nil)
	f, dir := runOwn(t, clock.RealClock{}, newCA(t, "first", end, root), root, identity.SchemeLinkerd)
	next := filepath.Join(dir, "..2026")
	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	newCA(t, "second", end, root).write(t, next, "crt.pem", "key.pem")
	for _, name := range []string{"crt.pem", "key.pem"} {
		if err := os.Symlink(filepath.Join("..2026", name), filepath.Join(dir, "tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for e := range f.events.Events {
		if strings.HasPrefix(e, "Normal IssuerUpdated") {
			return
		}
	}
}

// B72: many proxies start at once.
func TestCertifyManyAtOnce(t *testing.T) {
	f := run(t, clock.RealClock{})
	r := request(t)
	begin := time.Now()
	var group errgroup.Group
	for range 500 {
		group.Go(func() error {
			_, err := f.Certify(t.Context(), r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("500 calls took %v, want under 3 s", took)
	}
}

func BenchmarkCertify(b *testing.B) {
	f := run(b, clock.RealClock{}, func(c *identity.Config) { c.Events = nil })
	r := request(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := f.Certify(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
}

// A process that runs for most of a year replaces its own issuer in time.
func TestOwnIssuerIsRenewed(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	f := run(t, c)
	for !c.HasWaiters() {
		runtime.Gosched()
	}
	c.Step(305 * 24 * time.Hour)
	for e := range f.events.Events {
		if strings.HasPrefix(e, "Normal IssuerUpdated") {
			break
		}
	}
	answer, err := f.Certify(t.Context(), request(t))
	if err != nil {
		t.Fatal(err)
	}
	issuer := parse(t, answer.GetIntermediateCertificates()[0])
	if want := c.Now().Add(365 * 24 * time.Hour); !issuer.NotAfter.Equal(want) {
		t.Errorf("the issuer ends at %v, want %v", issuer.NotAfter, want)
	}
}
