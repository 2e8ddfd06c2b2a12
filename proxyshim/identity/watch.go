package identity

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
)

const (
	// settle is how long the issuer's files must be quiet before they are
	// read: a certificate and its key are two files.
	settle = 200 * time.Millisecond
	// recheck is how often the files are read without a notification, and a
	// made issuer's age is looked at.
	recheck = 30 * time.Second
)

// watch tells of changes in the issuer's directory. Without inotify it tells
// nothing, and only the regular look at the files remains.
type watch struct {
	watcher *fsnotify.Watcher
	changes <-chan fsnotify.Event
	faults  <-chan error
}

func (s *Service) newWatch() *watch {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		if err = watcher.Add(s.config.Files.issuerDir()); err == nil {
			return &watch{watcher, watcher.Events, watcher.Errors}
		}
		watcher.Close()
	}
	s.config.Log.Warn("cannot watch the issuer's directory, looking every 30 s instead", "dir", s.config.Files.issuerDir(), "error", err)
	return &watch{}
}

// renew watches the directory that has the name now: the one that was watched
// may have been moved or deleted.
func (w *watch) renew(dir string) {
	if w.watcher != nil {
		// If there is none, the regular look at the files says so.
		_ = w.watcher.Add(dir)
	}
}

func (w *watch) close() {
	if w.watcher != nil {
		w.watcher.Close()
	}
}

// follow reloads the issuer whenever its files may have changed, until ctx
// ends. Linkerd waits for one certain symbolic link to be made, as the kubelet
// does; here any change counts, since people write these files by hand.
func (s *Service) follow(ctx context.Context, w *watch) {
	ticker := s.config.Clock.NewTicker(recheck)
	defer ticker.Stop()
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changes:
			quiet = s.config.Clock.After(settle)
			continue
		case <-w.faults:
			// Events were lost, which a look at the files makes up for.
		case <-quiet:
			quiet = nil
		case <-ticker.C():
			if err := s.config.Files.prepare(s.names.issuer(), s.now()); err != nil {
				s.config.Log.Warn("cannot renew the issuer", "error", err)
			}
		}
		// Watched before it is read, as at the start.
		w.renew(s.config.Files.issuerDir())
		s.reload()
	}
}

// reload loads the issuer if its files differ from those seen last. What does
// not load is skipped: the present issuer stays.
func (s *Service) reload() {
	c, err := s.config.Files.readIssuer()
	if err == nil && c.equal(s.loaded) {
		return
	}
	var issuer *Issuer
	if err == nil {
		s.loaded = c
		issuer, err = s.load(c)
	}
	if err != nil {
		s.config.Log.Warn("issuer not updated, the present one stays", "dir", s.config.Files.issuerDir(), "error", err)
		s.event(s.deployment(), corev1.EventTypeWarning, "IssuerUpdateSkipped", "issuer not updated: "+err.Error())
		return
	}
	s.issuer.Store(issuer)
	s.config.IssuerReplaced()
	s.config.Log.Info("issuer updated", "subject", issuer.certificate.Subject.String(), "notAfter", issuer.certificate.NotAfter)
	s.event(s.deployment(), corev1.EventTypeNormal, "IssuerUpdated", "issuer updated to "+issuer.certificate.Subject.String())
}
