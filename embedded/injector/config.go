package injector

import (
	"cmp"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// Config is what the injector writes into pods. Empty texts mean the
// defaults of the 2.20 chart.
type Config struct {
	// Default is for pods without linkerd.io/inject on themselves or their
	// namespace.
	Default bool
	// NoNativeSidecar makes the proxy an ordinary container unless a pod's
	// annotation asks for a native sidecar.
	NoNativeSidecar bool
	linkerd.Settings
	// TrustAnchors in PEM go into the environment of the proxy, and their hash
	// into an annotation.
	TrustAnchors string

	ProxyImage   string
	ProxyVersion string
	// CreatedBy is the value of linkerd.io/created-by.
	CreatedBy string
}

// DefaultProxyImage is the image of the chart, without its version.
const DefaultProxyImage = "cr.l5d.io/linkerd/proxy"

// DefaultProxyVersion is the version of the proxy that Linkerd 2.20 shipped with.
const DefaultProxyVersion = "v2.359.0"

func (c Config) withDefaults() Config {
	c.ProxyImage = cmp.Or(c.ProxyImage, DefaultProxyImage)
	c.ProxyVersion = cmp.Or(c.ProxyVersion, DefaultProxyVersion)
	c.CreatedBy = cmp.Or(c.CreatedBy, "linkerd-lite/proxy-injector")
	return c
}
