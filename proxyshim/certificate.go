package proxyshim

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/linkerd-lite/linkerd-lite/internal/pki"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// Issuer certifies the control plane's own identities and knows what peers
// are trusted. identity.Service is one.
type Issuer interface {
	Issue(identity string, key *ecdsa.PublicKey) (*identity.Leaf, error)
	Anchors() *identity.Anchors
}

const (
	// renewAt is the share of a certificate's life after which it is renewed,
	// in percent, as in the proxy.
	renewAt = 70
	// renewRetry is how long a failed renewal waits for the next try.
	renewRetry = 10 * time.Second
	// renewCheck bounds how long the clock goes unwatched: timers stand still
	// while a machine sleeps.
	renewCheck = time.Minute
)

// certificate keeps one identity's certificate fresh. It is renewed in time by
// run, and also by get when run is late, which it is after a machine wakes (B71).
type certificate struct {
	name   string
	issuer Issuer
	clock  clock.WithTicker
	log    *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	renewal time.Time
	end     time.Time
	retry   time.Time
}

// get returns a certificate that is good now.
func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now().Round(0)
	if now.Before(c.renewal) && c.current != nil {
		return c.current, nil
	}
	good := c.current != nil && now.Before(c.end)
	if good && now.Before(c.retry) {
		return c.current, nil
	}
	if err := c.renew(now); err != nil {
		if !good {
			return nil, err
		}
		c.retry = now.Add(renewRetry)
		c.log.Warn("the control plane's certificate was not renewed", "identity", c.name, "notAfter", c.end, "error", err)
	}
	return c.current, nil
}

// renew needs c.mu.
func (c *certificate) renew(now time.Time) error {
	key, err := pki.NewKey(c.name)
	if err != nil {
		return err
	}
	leaf, err := c.issuer.Issue(c.name, &key.PublicKey)
	if err != nil {
		return fmt.Errorf("issue certificate for %s: %w", c.name, err)
	}
	c.current = &tls.Certificate{
		Certificate:                  append([][]byte{leaf.Certificate}, leaf.Chain...),
		PrivateKey:                   key,
		SupportedSignatureAlgorithms: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
	}
	c.end = leaf.NotAfter
	c.renewal = now.Add(leaf.NotAfter.Sub(now) * renewAt / 100)
	c.retry = time.Time{}
	c.log.Debug("the control plane has a new certificate", "identity", c.name, "notAfter", c.end, "renewal", c.renewal)
	return nil
}

// run renews until ctx ends. A renewal that fails is tried again; what is
// served meanwhile is get's matter.
func (c *certificate) run(ctx context.Context) {
	ticker := c.clock.NewTicker(renewCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if _, err := c.get(); err != nil {
				c.log.Warn("the control plane has no valid certificate", "identity", c.name, "error", err)
			}
		}
	}
}
