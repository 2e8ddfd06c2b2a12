package identity_test

import (
	"context"
	"crypto/ecdsa"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// runOwn runs a service with an issuer of the user's.
func runOwn(t testing.TB, c clock.WithTicker, issuer, root *identitytest.CA, scheme identity.Scheme, parents ...*identitytest.CA) (f *fixture, dir string) {
	t.Helper()
	dir = t.TempDir()
	anchors := filepath.Join(t.TempDir(), "anchors.pem")
	if err := os.WriteFile(anchors, root.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	certName, keyName := "crt.pem", "key.pem"
	if scheme == identity.SchemeKubernetes {
		certName, keyName = "tls.crt", "tls.key"
	}
	issuer.Write(t, dir, certName, keyName, parents...)
	return run(t, c, func(config *identity.Config) {
		config.Files = identity.Files{IssuerDir: dir, AnchorsFile: anchors, Scheme: scheme}
	}), dir
}

// A leaf does not outlive its issuer or one of its parents.
func TestLeafIsClamped(t *testing.T) {
	rulebook.Covers(t, "I16")
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
		rulebook.Run(t, test.name, func(t *testing.T) {
			root := identitytest.NewCA(t, "root", start.Add(1000*time.Hour), nil)
			parent := identitytest.NewCA(t, "parent", start.Add(test.parent), root)
			issuer := identitytest.NewCA(t, "issuer", start.Add(test.issuer), parent)
			f, _ := runOwn(t, clocktesting.NewFakeClock(start), issuer, root, test.scheme, parent)
			answer, err := f.Certify(t.Context(), request(t))
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.GetValidUntil().AsTime(); !got.Equal(start.Add(test.want)) {
				t.Errorf("valid until %v, want %v", got, start.Add(test.want))
			}
			chain := answer.GetIntermediateCertificates()
			if len(chain) != 2 || string(chain[0]) != string(issuer.Certificate.Raw) || string(chain[1]) != string(parent.Certificate.Raw) {
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
	rulebook.Covers(t, "I15")
	end := time.Now().Add(1000 * time.Hour)
	root, other := identitytest.NewCA(t, "root", end, nil), identitytest.NewCA(t, "other root", end, nil)
	first := identitytest.NewCA(t, "first", end, root)
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
		deadline := time.After(eventually.Patience)
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
	identitytest.NewCA(t, "foreign", end, other).Write(t, dir, "crt.pem", "key.pem")
	event("Warning IssuerUpdateSkipped")
	if got := signer(); got != "first" {
		t.Errorf("signed by %q after a bad update", got)
	}
	leaf := root.Leaf(t, time.Now().Add(-time.Hour), end, "workload")
	workload := &identitytest.CA{Certificate: parse(t, leaf.Certificate[0]), Key: leaf.PrivateKey.(*ecdsa.PrivateKey)}
	workload.Write(t, dir, "crt.pem", "key.pem")
	event("Warning IssuerUpdateSkipped")
	if got := signer(); got != "first" {
		t.Errorf("signed by %q after an update to a certificate that is no authority's", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "crt.pem"), []byte("trash"), 0o600); err != nil {
		t.Fatal(err)
	}
	event("Warning IssuerUpdateSkipped")
	if n := f.replaced.Load(); n != 0 {
		t.Errorf("%d issuers reported as new before there was one", n)
	}
	identitytest.NewCA(t, "second", end, root).Write(t, dir, "crt.pem", "key.pem")
	event("Normal IssuerUpdated")
	if n := f.replaced.Load(); n == 0 {
		t.Error("the new issuer was not reported")
	}
	if got := signer(); got != "second" {
		t.Errorf("signed by %q after a good update", got)
	}
}

// The kubelet replaces a mounted Secret by renaming a symbolic link.
func TestRotationBySymlink(t *testing.T) {
	end := time.Now().Add(1000 * time.Hour)
	root := identitytest.NewCA(t, "root", end, nil)
	f, dir := runOwn(t, clock.RealClock{}, identitytest.NewCA(t, "first", end, root), root, identity.SchemeLinkerd)
	next := filepath.Join(dir, "..2026")
	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	identitytest.NewCA(t, "second", end, root).Write(t, next, "crt.pem", "key.pem")
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

// Who replaces the whole directory is heard, and after that whoever writes into the new one.
func TestRotationByDirectory(t *testing.T) {
	end := time.Now().Add(1000 * time.Hour)
	root := identitytest.NewCA(t, "root", end, nil)
	f, dir := runOwn(t, clock.RealClock{}, identitytest.NewCA(t, "first", end, root), root, identity.SchemeLinkerd)
	updated := func(want string) {
		t.Helper()
		deadline := time.After(25 * time.Second) // less than until the regular look at the files
		for {
			select {
			case e := <-f.events.Events:
				if strings.HasPrefix(e, "Normal IssuerUpdated") && strings.Contains(e, want) {
					return
				}
			case <-deadline:
				t.Fatalf("waited in vain for %s; log:\n%s", want, f.log)
			}
		}
	}
	next := t.TempDir()
	identitytest.NewCA(t, "second", end, root).Write(t, next, "crt.pem", "key.pem")
	if err := os.Rename(dir, dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, dir); err != nil {
		t.Fatal(err)
	}
	updated("second")
	identitytest.NewCA(t, "third", end, root).Write(t, dir, "crt.pem", "key.pem")
	updated("third")
}

// busyReviewer answers as an API server that sends away what is too much.
type busyReviewer struct {
	identitytest.Reviewer
	active, refused atomic.Int64
}

func (r *busyReviewer) Create(ctx context.Context, review *authenticationv1.TokenReview, options metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	const maxMutatingInFlight = 200
	if r.active.Add(1) > maxMutatingInFlight {
		r.refused.Add(1)
	}
	defer r.active.Add(-1)
	runtime.Gosched()
	return r.Reviewer.Create(ctx, review, options)
}

// Many proxies start at once.
func TestCertifyManyAtOnce(t *testing.T) {
	rulebook.Covers(t, "B72")
	reviewer := &busyReviewer{}
	f := run(t, clock.RealClock{}, func(c *identity.Config) { c.Reviews = reviewer })
	r := request(t)
	// Other work on the machine may spoil a try, not all of them.
	const tries = 3
	for try := 1; ; try++ {
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
		took := time.Since(begin)
		if took <= eventually.Allowed(3*time.Second) {
			break
		}
		if try == tries {
			t.Errorf("500 calls took %v at the last of %d tries, want under %v", took, tries, eventually.Allowed(3*time.Second))
			break
		}
	}
	if n := reviewer.refused.Load(); n > 0 {
		t.Errorf("an API server would have sent %d reviews away", n)
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
