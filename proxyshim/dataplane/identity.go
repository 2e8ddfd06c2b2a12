package dataplane

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// renewAt is the share of a certificate's remaining life after which it is
// renewed, in percent.
const renewAt = 70

// warnEvery is how often it is said that there is no certificate yet.
const warnEvery = 15 * time.Second

// identity keeps the proxy's certificate fresh.
type identity struct {
	config  *Config
	metrics *metrics
	current atomic.Pointer[meshclient.Identity]
	// ready is closed with the first certificate.
	ready chan struct{}

	expiration, refreshed prometheus.Gauge
	refreshes             prometheus.Counter
}

func newIdentity(config *Config, m *metrics, registry *prometheus.Registry) *identity {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	i := &identity{
		config: config, metrics: m, ready: make(chan struct{}),
		expiration: gauge("control_identity_cert_expiration_timestamp_seconds", "When the certificate ends."),
		refreshed:  gauge("control_identity_cert_refresh_timestamp_seconds", "When the certificate was issued."),
		refreshes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "control_identity_cert_refreshes_total", Help: "Certificates that were issued."}),
	}
	registry.MustRegister(i.expiration, i.refreshed, i.refreshes)
	return i
}

// run gets certificates until ctx ends.
func (i *identity) run(ctx context.Context) {
	log := i.config.Log
	var warned time.Time
	for {
		wait := i.config.MinRefresh
		switch got, err := i.certify(ctx); {
		case err == nil:
			first := i.current.Swap(got) == nil
			if first {
				close(i.ready)
				log.Info("certified", "identity", i.config.Workload.Request.Identity, "validUntil", got.ValidUntil)
			}
			i.expiration.Set(float64(got.ValidUntil.Unix()))
			i.refreshed.Set(float64(time.Now().Unix()))
			i.refreshes.Inc()
			wait = min(max(time.Until(got.ValidUntil)*renewAt/100, i.config.MinRefresh), i.config.MaxRefresh)
		case ctx.Err() != nil:
			return
		case time.Since(warned) >= warnEvery:
			warned = time.Now()
			log.Warn("no new certificate", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// certifyTimeout is for one attempt.
const certifyTimeout = 10 * time.Second

// certify asks for a certificate; the connection is not kept, as the next is
// asked for in hours.
func (i *identity) certify(ctx context.Context) (*meshclient.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, certifyTimeout)
	defer cancel()
	w := i.config.Workload
	token, err := os.ReadFile(w.TokenFile)
	if err != nil {
		return nil, err
	}
	cc, err := dialControl(i.config, i.metrics, w.Identity)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	return w.Request.Certify(ctx, cc, token)
}

// certificate is what is shown to peers; nil before the first.
func (i *identity) certificate() *meshclient.Identity { return i.current.Load() }
