package identity_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	identitypb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
	"github.com/linkerd-lite/linkerd-lite/test/logs"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const webIdentity = "web.emojivoto.serviceaccount.identity.linkerd.cluster.local"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a service that runs, and what it reports.
type fixture struct {
	*identity.Service
	dir      string
	events   *record.FakeRecorder
	registry *prometheus.Registry
	log      *logs.Buffer
	// replaced counts the issuers that were reported as new ones.
	replaced atomic.Int32
	stop     func()
}

func run(t testing.TB, c clock.WithTicker, change ...func(*identity.Config)) *fixture {
	t.Helper()
	f := &fixture{dir: t.TempDir(), events: record.NewFakeRecorder(10_000), registry: prometheus.NewRegistry(), log: &logs.Buffer{}}
	config := identity.Config{
		Files:          identity.Files{Dir: f.dir},
		Settings:       linkerd.DefaultSettings(),
		Reviews:        &identitytest.Reviewer{},
		Events:         f.events,
		IssuerReplaced: func() { f.replaced.Add(1) },
		Registerer:     f.registry,
		Clock:          c,
		Log:            slog.New(slog.NewTextHandler(f.log, nil)),
	}
	for _, c := range change {
		c(&config)
	}
	service, err := identity.New(config)
	if err != nil {
		t.Fatal(err)
	}
	f.Service = service
	f.stop = parts.Start(t, time.Minute, service.Run)
	return f
}

func newCSR(t testing.TB, template x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// request is a good request for webIdentity.
func request(t testing.TB) *identitypb.CertifyRequest {
	t.Helper()
	return &identitypb.CertifyRequest{
		Identity: webIdentity,
		Token:    []byte(identitytest.Token(identity.Audience, "emojivoto", "web")),
		CertificateSigningRequest: newCSR(t, x509.CertificateRequest{
			Subject: pkix.Name{CommonName: webIdentity}, DNSNames: []string{webIdentity},
		}, identitytest.NewKey(t)),
	}
}

func parse(t testing.TB, der []byte) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verify holds the answer against the anchors as a proxy does.
func verify(t testing.TB, f *fixture, answer *identitypb.CertifyResponse, now time.Time) error {
	t.Helper()
	intermediates := x509.NewCertPool()
	for _, der := range answer.GetIntermediateCertificates() {
		intermediates.AddCert(parse(t, der))
	}
	_, err := parse(t, answer.GetLeafCertificate()).Verify(x509.VerifyOptions{
		Roots: f.Anchors().Pool, Intermediates: intermediates, DNSName: webIdentity, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

func TestCertify(t *testing.T) {
	rulebook.Covers(t, "I01")
	f := run(t, clocktesting.NewFakeClock(start))
	answer, err := f.Certify(t.Context(), request(t))
	if err != nil {
		t.Fatal(err)
	}
	leaf := parse(t, answer.GetLeafCertificate())
	if len(leaf.DNSNames) != 1 || leaf.DNSNames[0] != webIdentity || leaf.Subject.CommonName != webIdentity {
		t.Errorf("leaf is for %v, common name %q", leaf.DNSNames, leaf.Subject.CommonName)
	}
	if leaf.SignatureAlgorithm != x509.ECDSAWithSHA256 || leaf.IsCA {
		t.Errorf("leaf is signed with %v, authority: %v", leaf.SignatureAlgorithm, leaf.IsCA)
	}
	if leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment || len(leaf.ExtKeyUsage) != 2 {
		t.Errorf("leaf has usages %v and %v", leaf.KeyUsage, leaf.ExtKeyUsage)
	}
	if want := start.Add(24*time.Hour + 10*time.Second); !answer.GetValidUntil().AsTime().Equal(want) || !leaf.NotAfter.Equal(want) {
		t.Errorf("valid until %v, leaf until %v, want %v", answer.GetValidUntil().AsTime(), leaf.NotAfter, want)
	}
	if n := len(answer.GetIntermediateCertificates()); n != 1 {
		t.Errorf("%d intermediates, want the issuer only", n)
	}
	if event := <-f.events.Events; !strings.HasPrefix(event, "Normal IssuedLeafCertificate") || !strings.Contains(event, webIdentity) {
		t.Errorf("event %q", event)
	}
}

// 10 s of allowance at both ends.
func TestCertifyClockSkew(t *testing.T) {
	rulebook.Covers(t, "B71")
	f := run(t, clocktesting.NewFakeClock(start))
	answer, err := f.Certify(t.Context(), request(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		offset time.Duration
		good   bool
	}{
		{"9 s early", -9 * time.Second, true},
		{"11 s early", -11 * time.Second, false},
		{"24 h later", 24 * time.Hour, true},
		{"24 h and 9 s later", 24*time.Hour + 9*time.Second, true},
		{"24 h and 11 s later", 24*time.Hour + 11*time.Second, false},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			if err := verify(t, f, answer, start.Add(test.offset)); (err == nil) != test.good {
				t.Errorf("verify: %v", err)
			}
		})
	}
}

func TestCertifyRefuses(t *testing.T) {
	rulebook.Covers(t, "B72")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	csr := func(change func(*x509.CertificateRequest)) func(*testing.T, *identitypb.CertifyRequest) {
		return func(t *testing.T, r *identitypb.CertifyRequest) {
			template := x509.CertificateRequest{Subject: pkix.Name{CommonName: webIdentity}, DNSNames: []string{webIdentity}}
			change(&template)
			r.CertificateSigningRequest = newCSR(t, template, identitytest.NewKey(t))
		}
	}
	token := func(token string) func(*testing.T, *identitypb.CertifyRequest) {
		return func(_ *testing.T, r *identitypb.CertifyRequest) { r.Token = []byte(token) }
	}
	link, _ := url.Parse("spiffe://x/y")
	for _, test := range []struct {
		name   string
		code   codes.Code
		change func(*testing.T, *identitypb.CertifyRequest)
	}{
		{"I02 no identity", codes.InvalidArgument, func(_ *testing.T, r *identitypb.CertifyRequest) { r.Identity = "" }},
		{"I02 no token", codes.InvalidArgument, token("")},
		{"I02 no CSR", codes.InvalidArgument, func(_ *testing.T, r *identitypb.CertifyRequest) { r.CertificateSigningRequest = nil }},
		{"I03 PEM", codes.InvalidArgument, func(_ *testing.T, r *identitypb.CertifyRequest) {
			r.CertificateSigningRequest = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: r.CertificateSigningRequest})
		}},
		{"I04 no DNS name", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.DNSNames = nil })},
		{"I04 two DNS names", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.DNSNames = append(r.DNSNames, "x") })},
		{"I05, B72 other identity", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.DNSNames = []string{"x"} })},
		{"I06 other common name", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.Subject.CommonName = "x" })},
		{"I07 IP address", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{127, 0, 0, 1}} })},
		{"I07 e-mail address", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b.c"} })},
		{"I07 URI", codes.FailedPrecondition, csr(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{link} })},
		{"broken signature", codes.FailedPrecondition, func(_ *testing.T, r *identitypb.CertifyRequest) {
			r.CertificateSigningRequest[len(r.CertificateSigningRequest)-1] ^= 1
		}},
		{"I08, B72 garbage token", codes.InvalidArgument, token("garbage")},
		{"I08 token of nobody", codes.FailedPrecondition, token(identity.Audience + "|")},
		{"I09 token of another account", codes.FailedPrecondition, token(identitytest.Token(identity.Audience, "emojivoto", "voting"))},
		{"I11 user", codes.InvalidArgument, token(identity.Audience + "|system:admin")},
		{"I11 not of the system", codes.InvalidArgument, token(identity.Audience + "|a:serviceaccount:ns:sa")},
		{"I11 more parts than an account has", codes.InvalidArgument, token(identity.Audience + "|system:serviceaccount:emojivoto:web:x")},
		{"I12 account with a dot", codes.InvalidArgument, token(identitytest.Token(identity.Audience, "emojivoto", "web.v2"))},
		{"I13 RSA key", codes.Internal, func(t *testing.T, r *identitypb.CertifyRequest) {
			r.CertificateSigningRequest = newCSR(t, x509.CertificateRequest{DNSNames: []string{webIdentity}}, rsaKey)
		}},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			f := run(t, clocktesting.NewFakeClock(start))
			r := request(t)
			test.change(t, r)
			_, err := f.Certify(t.Context(), r)
			if status.Code(err) != test.code {
				t.Errorf("Certify: %v, want code %v", err, test.code)
			}
			if log := f.log.String(); !strings.Contains(log, "level=INFO") || !strings.Contains(log, test.code.String()) {
				t.Errorf("the refusal is not in the log at the default level: %q", log)
			}
		})
	}
	rulebook.Run(t, "I10 default audience", func(t *testing.T) {
		f := run(t, clocktesting.NewFakeClock(start))
		r := request(t)
		r.Token = []byte(identitytest.Token("https://kubernetes.default.svc", "emojivoto", "web"))
		if _, err := f.Certify(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
	rulebook.Run(t, "I17 API down", func(t *testing.T) {
		f := run(t, clocktesting.NewFakeClock(start), func(c *identity.Config) {
			c.Reviews = &identitytest.Reviewer{Err: errors.New("connection refused")}
		})
		if _, err := f.Certify(t.Context(), request(t)); status.Code(err) != codes.Internal {
			t.Errorf("Certify: %v", err)
		}
	})
}

// A request may ask for anything in extensions; only its name is taken.
func TestCertifyDropsExtensions(t *testing.T) {
	f := run(t, clocktesting.NewFakeClock(start))
	constraints, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t)
	r.CertificateSigningRequest = newCSR(t, x509.CertificateRequest{
		DNSNames:        []string{webIdentity},
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: constraints}},
	}, identitytest.NewKey(t))
	answer, err := f.Certify(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if parse(t, answer.GetLeafCertificate()).IsCA {
		t.Error("a workload got the certificate of an authority")
	}
}

// The user's issuer ends while it is loaded.
func TestIssuerExpires(t *testing.T) {
	rulebook.Covers(t, "I14, B71")
	c := clocktesting.NewFakeClock(start)
	root := identitytest.NewCA(t, "root", start.Add(1000*time.Hour), nil)
	f, _ := runOwn(t, c, identitytest.NewCA(t, "issuer", start.Add(48*time.Hour), root), root, identity.SchemeLinkerd)
	ttl := testutil.ToFloat64(gauge(t, f))
	if want := (48 * time.Hour).Seconds(); ttl != want {
		t.Errorf("issuer_cert_ttl_seconds is %v, want %v", ttl, want)
	}
	c.SetTime(start.Add(49 * time.Hour))
	_, err := f.Certify(t.Context(), request(t))
	if status.Code(err) != codes.Unknown {
		t.Fatalf("Certify: %v", err)
	}
	for _, date := range []string{"not before 2016-03-05T12:00:00Z", "not after 2026-03-03T12:00:00Z", "now 2026-03-03T13:00:00Z"} {
		if !strings.Contains(err.Error(), date) {
			t.Errorf("message %q lacks %q", err, date)
		}
	}
	if event := <-f.events.Events; !strings.HasPrefix(event, "Warning IssuerValidationFailed") {
		t.Errorf("event %q", event)
	}
}

// gauge is the service's metric as a collector of its own.
func gauge(t *testing.T, f *fixture) prometheus.Collector {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "issuer_cert_ttl_seconds" {
		t.Fatalf("metrics %v, %v", families, err)
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "x"}, func() float64 { return families[0].GetMetric()[0].GetGauge().GetValue() })
}

// Nothing is signed before the issuer is there.
func TestNotLoaded(t *testing.T) {
	rulebook.Covers(t, "I18")
	service, err := identity.New(identity.Config{
		Files: identity.Files{Dir: t.TempDir()}, Settings: linkerd.DefaultSettings(),
		Registerer: prometheus.NewRegistry(), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Certify(t.Context(), request(t)); status.Code(err) != codes.Unavailable {
		t.Errorf("Certify: %v", err)
	}
	if _, err := service.Issue("x", &identitytest.NewKey(t).PublicKey); err == nil {
		t.Error("Issue worked without an issuer")
	}
}

type access struct{ allowed bool }

func (a access) Create(_ context.Context, r *authorizationv1.SelfSubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SelfSubjectAccessReview, error) {
	out := r.DeepCopy()
	out.Status.Allowed = a.allowed && r.Spec.ResourceAttributes.Resource == "tokenreviews"
	return out, nil
}

func TestNewAndRunRefuse(t *testing.T) {
	for _, test := range []struct {
		name, want string
		change     func(*identity.Config)
	}{
		{"bad trust domain", "trust domain", func(c *identity.Config) { c.TrustDomain = "a_b" }},
		{"bad namespace", "namespace", func(c *identity.Config) { c.ControlPlaneNamespace = "a.b" }},
		{"issuer without anchors", "trust anchors", func(c *identity.Config) { c.Files.IssuerDir = "x" }},
		{"unknown scheme", "scheme", func(c *identity.Config) {
			c.Files = identity.Files{IssuerDir: "x", AnchorsFile: "y", Scheme: "z"}
		}},
		{"negative lifetime", "negative", func(c *identity.Config) { c.Lifetime = -1 }},
		{"no files", "no such file", func(c *identity.Config) {
			c.Files = identity.Files{IssuerDir: filepath.Join(c.Files.Dir, "x"), AnchorsFile: filepath.Join(c.Files.Dir, "y")}
		}},
		{"token reviews denied", "token reviews", func(c *identity.Config) { c.Access = access{} }},
		{"", "", func(c *identity.Config) { c.Access = access{true} }},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			config := identity.Config{
				Files: identity.Files{Dir: t.TempDir()}, Settings: linkerd.DefaultSettings(),
				Registerer: prometheus.NewRegistry(), Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
			}
			test.change(&config)
			service, err := identity.New(config)
			if err == nil {
				ctx, cancel := context.WithCancel(t.Context())
				err = service.Run(ctx, cancel)
				cancel()
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A second start uses the same authority, and only its owner can read the keys.
func TestFilesAreKept(t *testing.T) {
	f := run(t, clocktesting.NewFakeClock(start))
	anchors := f.Anchors().PEM
	cert, key := f.Issuer().PEM()
	f.stop()
	for _, name := range []string{"ca.key", "issuer/key.pem", "issuer/crt.pem", "ca-bundle.crt"} {
		info, err := os.Stat(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	again := run(t, clocktesting.NewFakeClock(start.Add(time.Hour)), func(c *identity.Config) { c.Files.Dir = f.dir })
	if len(anchors) == 0 || !bytes.Equal(anchors, again.Anchors().PEM) {
		t.Error("the trust anchors differ after a restart")
	}
	if cert2, key2 := again.Issuer().PEM(); len(key) == 0 || !bytes.Equal(cert, cert2) || !bytes.Equal(key, key2) {
		t.Error("the issuer differs after a restart")
	}
	again.stop()

	later := run(t, clocktesting.NewFakeClock(start.Add(305*24*time.Hour)), func(c *identity.Config) { c.Files.Dir = f.dir })
	if renewed, _ := later.Issuer().PEM(); bytes.Equal(cert, renewed) {
		t.Error("an issuer with less than 61 days left was not renewed at start")
	}
	if _, err := later.Certify(t.Context(), request(t)); err != nil {
		t.Error(err)
	}
	later.stop()

	// A crash between the two writes of a renewal leaves a pair that does not fit.
	if err := os.WriteFile(filepath.Join(f.dir, "issuer", "crt.pem"), cert, 0o600); err != nil {
		t.Fatal(err)
	}
	healed := run(t, clocktesting.NewFakeClock(start.Add(305*24*time.Hour)), func(c *identity.Config) { c.Files.Dir = f.dir })
	if _, err := healed.Certify(t.Context(), request(t)); err != nil {
		t.Error(err)
	}
}
