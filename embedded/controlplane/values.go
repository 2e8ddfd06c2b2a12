package controlplane

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// values is the key of the same name in the config map linkerd-config: what
// the chart was installed with, as far as tools read it.
func (c Config) values() (string, error) {
	type object = map[string]any
	webhook := object{"externalSecret": false, "caBundle": ""}
	v := object{
		"linkerdVersion":          c.Version,
		"cliVersion":              CreatedBy,
		"clusterDomain":           c.ClusterDomain,
		"clusterNetworks":         c.ProxyNetworks().String(),
		"controllerReplicas":      1,
		"controlPlaneTracing":     false,
		"cniEnabled":              false,
		"disableHeartBeat":        true,
		"disableIPv6":             !c.EnableIPv6,
		"enableEndpointSlices":    c.EnableEndpointSlices,
		"highAvailability":        false,
		"identityTrustAnchorsPEM": c.TrustAnchors,
		"identityTrustDomain":     c.TrustDomain,
		"webhookFailurePolicy":    "Fail",
		"egress":                  object{"globalEgressNetworkNamespace": c.GlobalEgressNetworkNamespace},
		"identity": object{
			"externalCA":                    false,
			"serviceAccountTokenProjection": true,
			"issuer": object{
				"scheme":             c.IssuerScheme,
				"clockSkewAllowance": c.ClockSkewAllowance.String(),
				"issuanceLifetime":   c.IssuanceLifetime.String(),
				"tls":                object{"crtPEM": c.issuerCertificate()},
			},
		},
		"policyController": object{"logLevel": "info", "probeNetworks": strings.Split(c.ProbeNetworks.String(), ",")},
		"policyValidator":  webhook,
		"profileValidator": webhook,
		"proxyInjector":    webhook,
		"proxy": object{
			"await":                true,
			"defaultInboundPolicy": c.DefaultPolicy,
			"image":                object{"name": "cr.l5d.io/linkerd/proxy", "version": c.ProxyVersion},
			"logLevel":             "warn,linkerd=info,hickory=error",
			"nativeSidecar":        true,
			"opaquePorts":          c.DefaultOpaquePorts.String(),
			"ports": object{
				"admin":    linkerd.ProxyAdminPort,
				"control":  linkerd.ProxyControlPort,
				"inbound":  linkerd.ProxyInboundPort,
				"outbound": linkerd.ProxyOutboundPort,
			},
			"outboundTransportMode":               c.OutboundTransportMode,
			"uid":                                 2102,
			"control":                             object{"streams": object{"initialTimeout": "3s", "idleTimeout": "5m", "lifetime": "1h"}},
			"inboundConnectTimeout":               "100ms",
			"inboundDiscoveryCacheUnusedTimeout":  "90s",
			"outboundConnectTimeout":              "1000ms",
			"outboundDiscoveryCacheUnusedTimeout": "5s",
		},
		"proxyInit": object{
			"ignoreInboundPorts":  "4567,4568",
			"ignoreOutboundPorts": "4567,4568",
			"kubeAPIServerPorts":  "443,6443",
			"skipSubnets":         "",
		},
	}
	text, err := yaml.Marshal(v)
	return string(text), err
}

func (c Config) issuerCertificate() string {
	if c.Issuer == nil {
		return ""
	}
	return c.Issuer.Certificate
}
