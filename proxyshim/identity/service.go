package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/pki"
	identitypb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
)

// The defaults of Linkerd's code (identity section 2).
const (
	DefaultLifetime  = 24 * time.Hour
	DefaultClockSkew = 10 * time.Second
)

// EventSource is the component in the source of the service's events.
const EventSource = "linkerd-identity"

// Config sets up a Service.
type Config struct {
	Files Files
	linkerd.Settings
	// Lifetime is that of leaf certificates, ClockSkew what is added to it at
	// both ends. Zero means the default.
	Lifetime, ClockSkew time.Duration
	Reviews             TokenReviewer
	// Access, when set, is asked at start whether tokens may be reviewed.
	Access AccessReviewer
	// Events may be nil.
	Events record.EventRecorder
	// IssuerReplaced, when set, is called after each change of the issuer but the first.
	IssuerReplaced func()
	Registerer     prometheus.Registerer
	Clock          clock.WithTicker
	Log            *slog.Logger
}

// Service issues certificates. Its issuer can be replaced while it runs: a
// Certify call uses the one that was loaded when it began.
type Service struct {
	identitypb.UnimplementedIdentityServer
	config Config
	names  names
	// reviews is held by calls that wait for the API server.
	reviews *semaphore.Weighted
	// issuer is nil until Run has loaded it.
	issuer  atomic.Pointer[Issuer]
	anchors atomic.Pointer[Anchors]
	// loaded is what issuer was read from, or what was refused last. Used by
	// Run only.
	loaded credentials
}

// Anchors are the trust anchors of the mesh. Immutable.
type Anchors struct {
	// PEM is the bundle as it stands in its file.
	PEM  []byte
	Pool *x509.CertPool
}

// New checks the configuration and registers the service's metric.
func New(config Config) (*Service, error) {
	if config.Lifetime == 0 {
		config.Lifetime = DefaultLifetime
	}
	if config.ClockSkew == 0 {
		config.ClockSkew = DefaultClockSkew
	}
	if config.Lifetime < 0 || config.ClockSkew < 0 {
		return nil, errors.New("lifetime and clock skew of certificates cannot be negative")
	}
	if config.IssuerReplaced == nil {
		config.IssuerReplaced = func() {}
	}
	if err := config.Files.check(); err != nil {
		return nil, err
	}
	n, err := newNames(config.ControlPlaneNamespace, config.TrustDomain)
	if err != nil {
		return nil, err
	}
	s := &Service{config: config, names: n, reviews: semaphore.NewWeighted(maxReviews)}
	ttl := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "issuer_cert_ttl_seconds",
		Help: "Time until the issuer certificate ends.",
	}, func() float64 {
		issuer := s.issuer.Load()
		if issuer == nil {
			return 0
		}
		return issuer.certificate.NotAfter.Sub(s.now()).Seconds()
	})
	if err := config.Registerer.Register(ttl); err != nil {
		return nil, fmt.Errorf("register identity metrics: %w", err)
	}
	return s, nil
}

// now is the wall clock: a machine that sleeps stops the monotonic one (B71).
func (s *Service) now() time.Time { return s.config.Clock.Now().Round(0) }

// Run loads the authority, making it at the first start, calls ready, and then
// follows changes of the issuer until ctx ends. A first load that fails is its
// error; later ones keep the issuer that is.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if s.config.Access != nil {
		if err := checkAccess(ctx, s.config.Access); err != nil {
			return err
		}
	}
	if err := s.config.Files.prepare(s.names.issuer(), s.now()); err != nil {
		return err
	}
	// Watched before it is read, so that no change falls in between.
	w := s.newWatch()
	defer w.close()
	if err := s.start(); err != nil {
		return err
	}
	ready()
	s.follow(ctx, w)
	return nil
}

// start loads the anchors and the first issuer.
func (s *Service) start() error {
	// Anchors are read once, as Linkerd does: who already trusts the old ones
	// would not learn of new ones anyway.
	data, err := os.ReadFile(s.config.Files.AnchorsPath())
	if err != nil {
		return fmt.Errorf("read trust anchors: %w", err)
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return fmt.Errorf("trust anchors %s: %w", s.config.Files.AnchorsPath(), err)
	}
	anchors := &Anchors{PEM: data, Pool: x509.NewCertPool()}
	for _, c := range certs {
		anchors.Pool.AddCert(c)
	}
	s.anchors.Store(anchors)
	if s.loaded, err = s.config.Files.readIssuer(); err != nil {
		return err
	}
	issuer, err := s.load(s.loaded)
	if err != nil {
		return fmt.Errorf("load issuer from %s: %w", s.config.Files.issuerDir(), err)
	}
	s.issuer.Store(issuer)
	s.config.Log.Debug("issuer loaded", "subject", issuer.certificate.Subject.String(), "notAfter", issuer.certificate.NotAfter)
	return nil
}

// load makes an issuer that is good now.
func (s *Service) load(c credentials) (*Issuer, error) {
	issuer, err := newIssuer(c, s.anchors.Load().Pool)
	if err != nil {
		return nil, err
	}
	return issuer, issuer.Verify(s.now())
}

// Anchors are the trust anchors, nil before the service is ready.
func (s *Service) Anchors() *Anchors { return s.anchors.Load() }

// Issuer is the issuer in use, nil before the service is ready.
func (s *Service) Issuer() *Issuer { return s.issuer.Load() }

// Certify issues a certificate for the identity that the token in the request
// stands for. The checks come in the order of the original, since the first that
// fails decides the code: the issuer is there, the fields are, the issuer is
// valid now, the request names one DNS name and it is the identity, the token is
// good, it is that of the identity, the key is ECDSA (identity section 2).
func (s *Service) Certify(ctx context.Context, in *identitypb.CertifyRequest) (*identitypb.CertifyResponse, error) {
	leaf, err := s.certify(ctx, in)
	if err != nil {
		// A mesh without certificates does not work at all: who looks for the
		// cause must find it at the default level (B72).
		s.config.Log.Info("certificate refused", "identity", in.GetIdentity(), "code", status.Code(err).String(), "reason", status.Convert(err).Message())
		return nil, err
	}
	return &identitypb.CertifyResponse{
		LeafCertificate:          leaf.Certificate,
		IntermediateCertificates: leaf.Chain,
		ValidUntil:               timestamppb.New(leaf.NotAfter),
	}, nil
}

func (s *Service) certify(ctx context.Context, in *identitypb.CertifyRequest) (*Leaf, error) {
	issuer := s.issuer.Load()
	identity := in.GetIdentity()
	switch {
	case issuer == nil:
		return nil, status.Error(codes.Unavailable, "the issuer is not loaded yet")
	case identity == "":
		return nil, status.Error(codes.InvalidArgument, "the request has no identity")
	case len(in.GetToken()) == 0:
		return nil, status.Error(codes.InvalidArgument, "the request has no token")
	case len(in.GetCertificateSigningRequest()) == 0:
		return nil, status.Error(codes.InvalidArgument, "the request has no certificate signing request")
	}
	req, err := parseRequest(in.GetCertificateSigningRequest())
	if err != nil {
		return nil, err
	}
	if err := issuer.Verify(s.now()); err != nil {
		s.event(s.deployment(), corev1.EventTypeWarning, "IssuerValidationFailed", err.Error())
		return nil, status.Error(codes.Unknown, err.Error())
	}
	if err := req.check(identity); err != nil {
		return nil, err
	}
	name, err := s.user(ctx, string(in.GetToken()))
	if err != nil {
		return nil, err
	}
	proven, err := s.names.ofUser(name)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if proven != identity {
		return nil, status.Errorf(codes.FailedPrecondition, "the token is that of %q, not of %q", proven, identity)
	}
	key, err := req.key()
	if err != nil {
		return nil, err
	}
	leaf, err := s.sign(issuer, req.csr.RawSubject, identity, key)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	account := serviceAccount(name)
	digest := sha256.Sum256(leaf.Certificate)
	s.config.Log.Debug("certificate issued", "identity", identity, "notAfter", leaf.NotAfter)
	s.event(account, corev1.EventTypeNormal, "IssuedLeafCertificate",
		fmt.Sprintf("issued certificate for %s until %s: %s", identity, leaf.NotAfter.Format(time.RFC3339), hex.EncodeToString(digest[:])))
	return leaf, nil
}

// Issue issues a certificate without a token, for parts of the control plane.
func (s *Service) Issue(identity string, key *ecdsa.PublicKey) (*Leaf, error) {
	issuer := s.issuer.Load()
	if issuer == nil {
		return nil, errors.New("the issuer is not loaded yet")
	}
	if err := issuer.Verify(s.now()); err != nil {
		s.event(s.deployment(), corev1.EventTypeWarning, "IssuerValidationFailed", err.Error())
		return nil, err
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: identity}.ToRDNSequence())
	if err != nil {
		return nil, fmt.Errorf("encode subject %q: %w", identity, err)
	}
	return s.sign(issuer, subject, identity, key)
}

func (s *Service) sign(issuer *Issuer, subject []byte, identity string, key *ecdsa.PublicKey) (*Leaf, error) {
	now := s.now()
	return issuer.sign(subject, identity, key, now.Add(-s.config.ClockSkew), now.Add(s.config.Lifetime+s.config.ClockSkew))
}
