package embedded

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/admin"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// ServeConfig describes a control plane for an API server that is there.
type ServeConfig struct {
	ControlPlane ControlPlaneConfig
	Client       *rest.Config
	// Holder is the name under which this replica holds Leases.
	Holder string
	// Write lets it write slices of external workloads and status of policies.
	Write bool
	Log   *slog.Logger
}

// Replica is a control plane for an API server that is there: no API server, no
// controllers, no manifests, no identity.
type Replica struct {
	listeners  listeners
	supervisor *lifecycle.Supervisor
}

// NewReplica binds the addresses. Nothing runs until Run is called; Close undoes it.
func NewReplica(config ServeConfig) (*Replica, error) {
	config.ControlPlane = config.ControlPlane.complete()
	kube, err := protobufClient(config.Client)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(promcollectors.NewGoCollector(), promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}))
	found, err := problems.New(problems.Config{Log: config.Log, Registerer: registry})
	if err != nil {
		return nil, err
	}
	bound, err := config.ControlPlane.Addresses.bind(nil, "destination", "policy", "admin")
	if err != nil {
		return nil, err
	}
	r := &Replica{listeners: bound}
	plane, err := newControlPlane(controlPlane{
		config: &config.ControlPlane, log: config.Log, registry: registry, problems: found, listeners: bound,
		client: config.Client, kube: kube, holder: config.Holder, leases: kube,
	})
	if err != nil {
		r.Close()
		return nil, err
	}
	list := &partList{}
	first := list.add("admin", admin.New(admin.Config{
		Listener: bound["admin"],
		Ready:    func() bool { return r.supervisor.IsReady() },
		Status:   func() []lifecycle.Status { return r.supervisor.Status() },
		Problems: func() []problems.Problem { return plane.found(found) },
		State:    func(table string) (any, error) { return plane.describe(table) },
		Gatherer: registry,
		Pprof:    config.ControlPlane.EnablePprof,
		Log:      config.Log,
	}).Run)
	planeParts, err := plane.add(list, first, part{})
	if err == nil && config.Write {
		err = plane.addWriters(list, planeParts.viewsUp)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	r.supervisor, err = lifecycle.New(lifecycle.Config{Log: config.Log, StopTimeout: stopTimeout, FailureTimeout: failureTimeout}, list.parts...)
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Run runs the parts until ctx ends or one fails.
func (r *Replica) Run(ctx context.Context) error { return r.supervisor.Run(ctx) }

// Ready is closed when all parts are ready.
func (r *Replica) Ready() <-chan struct{} { return r.supervisor.Ready() }

// Addresses are those that are listened on, by the name of their spec.
func (r *Replica) Addresses() map[string]string { return r.listeners.addresses() }

// Close closes the addresses.
func (r *Replica) Close() { r.listeners.close() }
