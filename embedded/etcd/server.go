package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

const (
	// A member that is alone needs no time to notice that others are gone:
	// with the usual 100 ms and 1 s it would take 0.8 s to elect itself.
	tickMillis     = 10
	electionMillis = 100

	// walSegment is what etcd allocates on disk at a time, in bytes; usually 64 MB,
	// which is much for a temporary directory that lives in memory.
	walSegment = 16 << 20

	// defragmentAbove is the unused space in the database file, in MiB, from
	// which it is rewritten at start.
	defragmentAbove = 16

	// closeTimeout bounds the wait for a member that has failed already: its
	// own goroutines may be gone, and etcd waits for them without a bound.
	closeTimeout = 500 * time.Millisecond
)

// Config sets up a Server.
type Config struct {
	// Dir holds the data; it is created with mode 0700.
	Dir string
	// Socket is the path of the unix socket, at most MaxSocketPath bytes. Its
	// directory must admit its owner only: etcd asks nobody for credentials.
	Socket string
	// UnsafeNoFsync leaves it to the kernel when data reaches the disk. A crash
	// of the machine, not of the process, may then lose writes.
	UnsafeNoFsync bool
	// Failed is called when the member fails, if it is set: before Run returns,
	// which takes a moment, as others notice the failure meanwhile.
	Failed func(error)
	Log    *slog.Logger
}

// MaxSocketPath is the longest path of a unix socket that all supported
// systems take, in bytes (104 on BSD with the final zero).
const MaxSocketPath = 103

// Server is one member, alone in its cluster, without any TCP port.
type Server struct {
	config Config
}

// New checks the configuration. It does no I/O.
func New(config Config) (*Server, error) {
	if len(config.Socket) > MaxSocketPath {
		return nil, fmt.Errorf("etcd: socket path of %d bytes is longer than %d: %s", len(config.Socket), MaxSocketPath, config.Socket)
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Failed == nil {
		config.Failed = func(error) {}
	}
	return &Server{config: config}, nil
}

// Endpoint is the URL that clients use.
func (s *Server) Endpoint() string { return s.socketURL().String() }

func (s *Server) socketURL() *url.URL { return &url.URL{Scheme: "unix", Path: s.config.Socket} }

// walOnce guards the one variable of etcd that is process-wide.
var walOnce sync.Once

// Run serves until ctx ends. It returns an error when the member fails, for
// example because the disk is full.
func (s *Server) Run(ctx context.Context, ready func()) error {
	walOnce.Do(func() { wal.SegmentSizeBytes = walSegment })
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return fmt.Errorf("creating etcd's directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.config.Socket), 0o700); err != nil {
		return fmt.Errorf("creating the directory of etcd's socket: %w", err)
	}
	death := newDeath()
	config := s.embedConfig(death)

	// etcd ends the goroutine in which it logs something fatal: start it in one
	// that may end.
	var member *embed.Etcd
	started := lifecycle.Go("start of etcd", func() (err error) {
		member, err = embed.StartEtcd(config)
		return err
	})
	select {
	case err := <-started:
		if err != nil {
			return death.or(fmt.Errorf("starting etcd in %s: %w", s.config.Dir, err))
		}
	case <-death.happened:
		return death.err
	}

	select {
	case <-member.Server.ReadyNotify():
		// It was made with the umask's mode, in a directory that others cannot enter.
		if err := os.Chmod(s.config.Socket, 0o600); err != nil {
			return s.abandon(member, fmt.Errorf("etcd's socket: %w", err))
		}
		ready()
	case <-member.Server.StopNotify():
		return s.abandon(member, errors.New("etcd stopped while it was starting"))
	case <-death.happened:
		return s.abandon(member, death.err)
	case err := <-member.Err():
		return s.abandon(member, fmt.Errorf("etcd: %w", err))
	case <-ctx.Done():
		// Not elected yet: Close would wait for that.
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(closeTimeout):
		case <-death.happened:
			return s.abandon(member, death.err)
		}
	}

	select {
	case <-ctx.Done():
	case <-death.happened:
		return s.abandon(member, death.err)
	case <-member.Server.StopNotify():
		return s.abandon(member, errors.New("etcd stopped by itself"))
	case err := <-member.Err():
		return s.abandon(member, fmt.Errorf("etcd: %w", err))
	}
	select {
	case err := <-closing(member):
		return death.or(err)
	case <-death.happened:
		return death.err
	}
}

// closing closes a member; the channel gets how that ended.
func closing(member *embed.Etcd) <-chan error {
	return lifecycle.Go("end of etcd", func() error {
		member.Close()
		return nil
	})
}

// abandon closes what can be closed of a member that has failed.
func (s *Server) abandon(member *embed.Etcd, reason error) error {
	s.config.Failed(reason)
	select {
	case <-closing(member):
	case <-time.After(closeTimeout):
		s.config.Log.Warn("etcd does not close after its failure; leaving it")
	}
	return reason
}

func (s *Server) embedConfig(death *death) *embed.Config {
	config := embed.NewConfig()
	config.Name = "lite"
	config.Dir = s.config.Dir
	config.ListenClientUrls = []url.URL{*s.socketURL()}
	config.AdvertiseClientUrls = []url.URL{*s.socketURL()}
	// No listener for peers: there are none. The name stays the same when the
	// directory moves, as etcd compares it with what it stored.
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Host: "peer:0"}}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.TickMs = tickMillis
	config.ElectionMs = electionMillis
	config.UnsafeNoFsync = s.config.UnsafeNoFsync
	config.BootstrapDefragThresholdMegabytes = defragmentAbove
	config.EnableGRPCGateway = false
	// Nobody needs to catch up: keep few entries of the log in memory.
	config.SnapshotCount = 2000
	config.SnapshotCatchUpEntries = 100
	// The server's own clients are in this process; a write of a test's
	// 1,000 objects is no reason to warn.
	config.WarningApplyDuration = time.Second
	config.WarningUnaryRequestDuration = 2 * time.Second
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(&logCore{log: s.config.Log},
		zap.WithFatalHook(death), zap.WithPanicHook(death)))
	return config
}

// death is the hook for etcd's fatal log lines, of which it has some forty: it
// keeps the first and ends only the goroutine that logged it.
type death struct {
	once     sync.Once
	happened chan struct{}
	err      error
}

func newDeath() *death { return &death{happened: make(chan struct{})} }

func (d *death) report(err error) {
	d.once.Do(func() {
		d.err = err
		close(d.happened)
	})
	runtime.Goexit()
}

// or is why etcd gave up, if it has, which is the reason for whatever else ended.
func (d *death) or(err error) error {
	select {
	case <-d.happened:
		return d.err
	default:
		return err
	}
}
