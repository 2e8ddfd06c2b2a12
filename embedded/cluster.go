package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/controlplane"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// stopTimeout bounds the stop; parts that take longer are named.
	stopTimeout = 10 * time.Second
	// failureTimeout bounds it after a failure: requests to an API server whose
	// store is gone would take until their deadline.
	failureTimeout = 2 * time.Second
)

// Cluster is a cluster in this process: its data directory, its sockets and
// its parts. Several can live in one process.
type Cluster struct {
	config    *Config
	log       *slog.Logger
	dir       *datadir.Dir
	listeners listeners
	// inside is nil unless pods run.
	inside   *inside
	registry *prometheus.Registry
	// problems is what is wrong with objects and files, whichever part finds it.
	problems   *problems.Table
	supervisor *lifecycle.Supervisor
	info       datadir.RunInfo
	// keeper is told of new certificates by those who have them.
	keeper *controlplane.Keeper
	// syncer is nil without manifest directories.
	syncer *manifests.Syncer
	// groups are its parts, in the order of the start.
	groups []wing
	// client is that of users, own that of the program itself.
	client, own *rest.Config
	keys        *apiserver.Keys
	// out gets what the user should read.
	out io.Writer
	// notices are things to tell the user before the start.
	notices []string
	undo    []func() error
}

// New takes the data directory, binds all addresses and puts the parts
// together. Nothing runs until Run is called; Close undoes it.
func New(ctx context.Context, config Config) (*Cluster, error) {
	config.ControlPlane = config.ControlPlane.complete()
	c := &Cluster{config: &config, log: config.Log, out: config.Out, registry: prometheus.NewRegistry()}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	parts, err := c.wire()
	if err == nil {
		c.supervisor, err = lifecycle.New(lifecycle.Config{
			Log: c.log, StopTimeout: stopTimeout, FailureTimeout: failureTimeout, OnReady: config.OnReady, OnSlow: config.OnSlow,
		}, parts...)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.openDir(ctx); err != nil {
		return err
	}
	c.undo = append(c.undo, c.dir.Close)
	var err error
	last := c.dir.APIPort()
	if c.listeners, err = c.config.ControlPlane.Addresses.bind(map[string]uint16{"api": last}, c.addresses()...); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { c.listeners.close(); return nil })
	if c.config.Run != nil {
		if c.inside, err = c.newInside(ctx); err != nil {
			return err
		}
		c.undo = append(c.undo, func() error { return c.inside.close() })
		logs := c.partLogs()
		if err := logs.open(); err != nil {
			return err
		}
		c.log = slog.New(&partHandler{Handler: c.log.Handler(), logs: logs})
	}
	if port := c.address("api").Port(); port != last {
		if last != 0 {
			c.notices = append(c.notices, fmt.Sprintf("the API server has port %d now instead of %d: copies of the last kubeconfig no longer work", port, last))
		}
		if err := c.dir.SetAPIPort(port); err != nil {
			return err
		}
	}
	withdraw, err := c.dir.Announce()
	if err != nil {
		return err
	}
	c.undo = append(c.undo, withdraw)
	c.info = c.describe()
	return c.info.Write(c.dir)
}

func (c *Cluster) openDir(ctx context.Context) error {
	if c.config.Ephemeral {
		dir, removed, err := datadir.OpenTemporary(ctx)
		for _, path := range removed {
			c.notices = append(c.notices, "removed "+path+", left behind by a process that is gone")
		}
		c.dir = dir
		return err
	}
	path := c.config.DataDir
	if path == "" {
		var err error
		if path, err = datadir.Default(c.config.Dirs); err != nil {
			return err
		}
	}
	dir, err := datadir.Open(ctx, path)
	if err != nil {
		return err
	}
	c.dir = dir
	if dir.Crashed {
		c.notices = append(c.notices, "reusing "+dir.Path()+", whose last process did not stop by itself")
	}
	return nil
}

// addresses are the names of the listeners that this instance needs.
func (c *Cluster) addresses() []string {
	names := []string{"api", "admin"}
	if c.config.has(PartWebhooks) || c.config.has(PartInjector) {
		names = append(names, "webhook")
	}
	if c.config.has(PartControlPlane) {
		names = append(names, controlPlaneListeners...)
	}
	return names
}

// holder is the same for every run on one data directory, so that Leases come
// back at once after a crash.
func (c *Cluster) holder() string { return "linkerd-lite-" + filepath.Base(c.dir.Path()) }

// certificateReplaced has the objects written anew that show certificates to tools.
func (c *Cluster) certificateReplaced() { c.keeper.CertificateReplaced() }

// warn tells the user of something that is not as it should be.
func (c *Cluster) warn(format string, args ...any) { fmt.Fprintf(c.out, "warning: "+format, args...) }

// Run runs the parts until ctx ends or one fails.
func (c *Cluster) Run(ctx context.Context) error { return c.supervisor.Run(ctx) }

// manifestStatus is asked after the syncer has been built, by a part that is built before it.
func (c *Cluster) manifestStatus() func() any {
	if len(c.config.Dirs) == 0 {
		return nil
	}
	return func() any { return c.syncer.Status() }
}

// ready works before the supervisor is there: the admin part is one of its own.
func (c *Cluster) ready() bool { return c.supervisor.IsReady() }

// Ready is closed when all parts are ready.
func (c *Cluster) Ready() <-chan struct{} { return c.supervisor.Ready() }

// Status says how each part is.
func (c *Cluster) Status() []lifecycle.Status { return c.supervisor.Status() }

// Fail ends the cluster, with the name of what has failed.
func (c *Cluster) Fail(part string, err error) { c.supervisor.Fail(part, err) }

// Notices are things to tell the user before the start.
func (c *Cluster) Notices() []string { return c.notices }

// Info describes the cluster as run.json does.
func (c *Cluster) Info() datadir.RunInfo { return c.info }

// Client is for the cluster's API server.
func (c *Cluster) Client() *rest.Config { return rest.CopyConfig(c.client) }

// Announce writes into run.json that the cluster is ready, after so long a start.
func (c *Cluster) Announce(start time.Duration) (datadir.RunInfo, error) {
	c.info.Ready = true
	c.info.ReadySeconds = start.Seconds()
	for _, status := range c.supervisor.Status() {
		c.info.Parts = append(c.info.Parts, datadir.PartTime{Name: status.Name, StartSeconds: status.Start.Seconds(), ReadySeconds: status.Ready.Seconds()})
	}
	return c.info, c.info.Write(c.dir)
}

func (c *Cluster) describe() datadir.RunInfo {
	return datadir.RunInfo{
		PID:        os.Getpid(),
		Version:    c.config.Version,
		DataDir:    c.dir.Path(),
		Dirs:       c.config.Dirs,
		Kubeconfig: c.dir.Kubeconfig(),

		ControlPlaneNamespace: c.config.ControlPlane.ControlPlaneNamespace,
		TrustDomain:           c.config.ControlPlane.TrustDomain,

		Addresses: c.listeners.addresses(),
		Runs:      c.config.Run != nil,
		Started:   time.Now(),
	}
}

// Close undoes New, in reverse.
func (c *Cluster) Close() error {
	var errs []error
	for n := len(c.undo) - 1; n >= 0; n-- {
		errs = append(errs, c.undo[n]())
	}
	c.undo = nil
	return errors.Join(errs...)
}
