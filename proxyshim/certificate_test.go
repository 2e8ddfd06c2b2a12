package proxyshim_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// flakyIssuer is an issuer that can be made to fail, and counts.
type flakyIssuer struct {
	service *identity.Service
	fail    atomic.Bool
	issued  atomic.Int64
}

func (i *flakyIssuer) Issue(name string, key *ecdsa.PublicKey) (*identity.Leaf, error) {
	if i.fail.Load() {
		return nil, errors.New("no issuer today")
	}
	i.issued.Add(1)
	return i.service.Issue(name, key)
}

func (i *flakyIssuer) Anchors() *identity.Anchors { return i.service.Anchors() }

// startFlaky starts a fixture whose issuer is behind a flakyIssuer.
func startFlaky(t *testing.T, c *clocktesting.FakeClock) (*fixture, *flakyIssuer) {
	t.Helper()
	issuer := &flakyIssuer{}
	f := start(t, options{clock: c, issuer: issuer, prepare: func(s *identity.Service) { issuer.service = s }})
	return f, issuer
}

// The certificate is renewed at 70 % of its life; a machine that slept
// past that renews before it serves; a failed renewal leaves the old one while
// it is good, and nothing is served with one that has ended.
func TestCertificateRenewal(t *testing.T) {
	rulebook.Covers(t, "B71")
	begin := time.Now()
	life := identity.DefaultLifetime + identity.DefaultClockSkew
	for _, test := range []struct {
		name string
		// after is the time that passes with no timer running, as in sleep.
		after time.Duration
		fail  bool
		// renewed is whether a new certificate is served, refused whether none is.
		renewed, refused bool
	}{
		{"at once", 0, false, false, false},
		{"before 70 %", life * 69 / 100, false, false, false},
		{"after 70 %", life * 71 / 100, false, true, false},
		{"slept past its end", life + time.Hour, false, true, false},
		{"slept for a week", 7 * 24 * time.Hour, false, true, false},
		{"renewal fails, the old one is good", life * 71 / 100, true, false, false},
		{"renewal fails, the old one has ended", life + time.Hour, true, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := clocktesting.NewFakeClock(begin)
			f, issuer := startFlaky(t, c)
			first, err := f.shim.CertificateEnd(destinationPort)
			if err != nil {
				t.Fatal(err)
			}
			issuer.fail.Store(test.fail)
			c.SetTime(begin.Add(test.after))
			end, err := f.shim.CertificateEnd(destinationPort)
			if (err != nil) != test.refused {
				t.Fatalf("certificate: %v", err)
			}
			if renewed := end.After(first); renewed != test.renewed {
				t.Errorf("certificate until %v, the first one until %v", end, first)
			}
			if !test.refused && !end.After(c.Now()) {
				t.Errorf("certificate until %v is served at %v", end, c.Now())
			}
			if !test.refused {
				return
			}
			conn := tls.Client(dialTCP(t, f.addr[destinationPort]), &tls.Config{ServerName: destinationName, RootCAs: f.anchors})
			if err := conn.Handshake(); err == nil {
				t.Error("a handshake without a valid certificate succeeded")
			}
			f.eventually("the refusal to be counted", func() bool {
				return f.metric("inbound_tcp_errors_total", map[string]string{"error": "no certificate to serve"}) == 1
			})
			// The issuer comes back, and so does the service.
			issuer.fail.Store(false)
			if end, err := f.shim.CertificateEnd(destinationPort); err != nil || !end.After(c.Now()) {
				t.Errorf("certificate until %v, %v after the issuer came back", end, err)
			}
		})
	}
}

// Renewal happens by itself, without a handshake.
func TestCertificateRenewalWhenIdle(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	f, issuer := startFlaky(t, c)
	before := issuer.issued.Load()
	// The identity service and both server names wait for the clock.
	f.eventually("timers", func() bool { return c.Waiters() >= 3 })
	c.Step(20 * time.Hour)
	f.eventually("renewal of both certificates", func() bool { return issuer.issued.Load() == before+2 })
}

// A renewal that fails over and over does not sign on every handshake.
func TestCertificateRenewalIsPaced(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	f, issuer := startFlaky(t, c)
	issuer.fail.Store(true)
	c.SetTime(c.Now().Add(20 * time.Hour))
	for range 100 {
		if _, err := f.shim.CertificateEnd(destinationPort); err != nil {
			t.Fatal(err)
		}
	}
	// The other name's certificate fails on its own.
	if n := strings.Count(f.log.String(), "was not renewed\" identity="+destinationName); n != 1 {
		t.Errorf("%d failed renewals within 10 s are logged, want 1", n)
	}
}

// No stream notices a renewal.
func TestRenewalDropsNoStream(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	f, issuer := startFlaky(t, c)
	web := f.web()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const streams = 20
	failed := make(chan error, streams)
	for i := range streams {
		target := meshclient.Target{Addr: f.addr[destinationPort], ServerName: destinationName, Identity: web}
		if i%2 == 1 {
			target.Addr, target.DirectPort = f.direct, destinationPort
		}
		stream, err := get(t, f.dial(target))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := stream.Recv()
			if ctx.Err() != nil {
				err = nil
			}
			failed <- err
		}()
	}
	before := issuer.issued.Load()
	for range 5 {
		c.SetTime(c.Now().Add(20 * time.Hour))
		if _, err := f.shim.CertificateEnd(destinationPort); err != nil {
			t.Fatal(err)
		}
	}
	if got := issuer.issued.Load() - before; got < 5 {
		t.Errorf("%d renewals, want at least 5", got)
	}
	if got := f.metric("tcp_open_connections", map[string]string{"tls": "true", "client_id": webName}); got != streams {
		t.Errorf("%v connections are open, want %d", got, streams)
	}
	select {
	case err := <-failed:
		t.Errorf("a stream ended: %v", err)
	default:
	}
	cancel()
	f.stop()
	for range streams {
		if err := <-failed; err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("a stream ended with %v", err)
		}
	}
}

// Calls go on while the certificate is renewed, on connections that are there
// and on new ones.
func TestRenewalUnderLoad(t *testing.T) {
	// Clients have the real clock, for which both certificates must be good.
	c := clocktesting.NewFakeClock(time.Now().Add(-20 * time.Hour))
	f, issuer := startFlaky(t, c)
	web := f.web()
	const workers, renewals = 8, 20
	done := make(chan struct{})
	var calls atomic.Int64
	var group errgroup.Group
	for i := range workers {
		target := meshclient.Target{Addr: f.addr[policyPort], ServerName: destinationName, Identity: web, Anchors: f.anchors}
		if i%2 == 1 {
			target.Addr, target.DirectPort = f.direct, policyPort
		}
		group.Go(func() error {
			cc, err := target.Dial()
			for n := 1; err == nil; n++ {
				if _, err = inbound.NewInboundServerPoliciesClient(cc).GetPort(context.Background(), &inbound.PortSpec{}); err != nil {
					break
				}
				calls.Add(1)
				select {
				case <-done:
					return cc.Close()
				default:
				}
				if i < workers/2 && n%10 == 0 {
					if err = cc.Close(); err == nil {
						cc, err = target.Dial()
					}
				}
			}
			return err
		})
	}
	before := issuer.issued.Load()
	for range renewals {
		seen := calls.Load()
		c.Step(time.Hour) // the certificate is due after 17 hours
		if _, err := f.shim.CertificateEnd(destinationPort); err != nil {
			t.Fatal(err)
		}
		f.eventually("calls", func() bool { return calls.Load() >= seen+2*workers })
	}
	close(done)
	if err := group.Wait(); err != nil {
		t.Errorf("a call failed: %v", err)
	}
	if got := issuer.issued.Load() - before; got < 1 {
		t.Errorf("%d renewals, want at least one", got)
	}
}
