package containers

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

// The parts of a proxy's environment that name its files and its admin port.
const (
	identityDirVariable  = "LINKERD2_PROXY_IDENTITY_DIR"
	identityNameVariable = "LINKERD2_PROXY_IDENTITY_LOCAL_NAME"
	tokenVariable        = "LINKERD2_PROXY_IDENTITY_TOKEN_FILE"
	adminVariable        = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
)

// proxyTokenSeconds is how long the token of a proxy is valid, as in the chart.
const proxyTokenSeconds = 86400

// proxyFiles makes what a proxy reads of its identity: the key and the request that a real
// proxy's image makes before it starts the proxy, and the token. Where the pod has no
// volumes for them, as those that are injected here, it returns mounts.
func (c *container) proxyFiles(ctx context.Context, env map[string]string) ([]sandbox.Mount, error) {
	dir, name, token := env[identityDirVariable], env[identityNameVariable], env[tokenVariable]
	if dir == "" || name == "" || token == "" {
		return nil, nil // a proxy without an identity
	}
	var mounts []sandbox.Mount
	where, ok := c.inVolume(dir)
	if !ok {
		where = filepath.Join(c.worker.dir, "proxy", "identity")
		mounts = append(mounts, sandbox.Mount{Source: where, Target: dir})
	}
	if err := proxyenv.WriteIdentity(where, name); err != nil {
		return nil, err
	}
	if _, ok := c.inVolume(token); ok {
		return mounts, nil
	}
	where = filepath.Join(c.worker.dir, "proxy", "token")
	if err := c.worker.volumes.writeProxyToken(ctx, where, filepath.Base(token)); err != nil {
		return nil, err
	}
	return append(mounts, sandbox.Mount{Source: where, Target: filepath.Dir(token)}), nil
}

// writeProxyToken writes the token with which the pod's proxy proves itself.
func (v *volumes) writeProxyToken(ctx context.Context, dir, file string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	seconds := int64(proxyTokenSeconds)
	files, err := v.token(ctx, &corev1.ServiceAccountTokenProjection{Audience: identity.Audience, ExpirationSeconds: &seconds, Path: file})
	if err != nil {
		return err
	}
	v.proxyToken = func(ctx context.Context) error { return v.writeProxyToken(ctx, dir, file) }
	return writeFiles(dir, files)
}

// inVolume is where a path of the container is outside of it, if it is in one of its volumes.
func (c *container) inVolume(path string) (string, bool) {
	for _, mount := range c.spec.VolumeMounts {
		relative, err := filepath.Rel(mount.MountPath, path)
		if err != nil || !filepath.IsLocal(relative) {
			continue
		}
		volumes := c.worker.pod.Spec.Volumes
		if i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }); i >= 0 {
			return filepath.Join(c.worker.volumes.path(volumes[i]), mount.SubPath, relative), true
		}
	}
	return "", false
}

// waits reports whether the container is a proxy for which others wait by
// something quicker than its probes: those that are injected here have no hooks.
func (c *container) waits() bool {
	return c.command.proxy && (c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil)
}

// awaitProxy waits until the pod's proxy is ready.
func (c *container) awaitProxy(ctx context.Context, start *started) error {
	port := int32(linkerd.ProxyAdminPort)
	if _, text, err := net.SplitHostPort(start.env[adminVariable]); err == nil {
		if number, err := strconv.ParseUint(text, 10, 16); err == nil {
			port = int32(number)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := c.httpGet(ctx, &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(port)})
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the proxy is not ready: %w", err)
		}
	}
}
