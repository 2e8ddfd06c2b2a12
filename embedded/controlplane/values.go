package controlplane

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

type fields = map[string]any

// values is the key of the same name in the config map linkerd-config: what the chart
// was installed with. The clients of 2.20 decode it into the chart's structs and
// follow their pointers without asking, so what the chart has by default is here too
// (C5). Private keys are left out, as Linkerd does.
func (c Config) values() (string, error) {
	text, err := yaml.Marshal(fields{
		"linkerdVersion":               c.Version,
		"cliVersion":                   CreatedBy,
		"clusterDomain":                c.ClusterDomain,
		"clusterNetworks":              c.ProxyNetworks().String(),
		"commonLabels":                 fields{},
		"controllerImage":              "cr.l5d.io/linkerd/controller",
		"controllerLogFormat":          "plain",
		"controllerLogLevel":           "info",
		"controllerReplicas":           1,
		"controllerUID":                2103,
		"controllerGID":                -1,
		"controlPlaneTracing":          false,
		"controlPlaneTracingNamespace": "linkerd-jaeger",
		"cniEnabled":                   false,
		"controller":                   fields{"podDisruptionBudget": fields{"maxUnavailable": 1}},
		"debugContainer":               fields{"image": image("debug", c.Version)},
		"deploymentStrategy":           fields{"rollingUpdate": fields{"maxSurge": "25%", "maxUnavailable": "25%"}},
		"disableHeartBeat":             true,
		"disableIPv6":                  !c.EnableIPv6,
		"egress":                       fields{"globalEgressNetworkNamespace": c.GlobalEgressNetworkNamespace},
		"enableEndpointSlices":         c.EnableEndpointSlices,
		"enableH2Upgrade":              true,
		"enablePodAntiAffinity":        false,
		"enablePodDisruptionBudget":    false,
		"enablePprof":                  false,
		"highAvailability":             false,
		"identity":                     c.identityValues(),
		"identityTrustAnchorsPEM":      c.TrustAnchors,
		"identityTrustDomain":          c.TrustDomain,
		"imagePullPolicy":              "IfNotPresent",
		"imagePullSecrets":             []any{},
		"networkValidator": fields{
			"connectAddr": "", "enableSecurityContext": true, "listenAddr": "", "logFormat": "plain", "logLevel": "debug", "timeout": "10s",
		},
		"nodeSelector":   fields{"kubernetes.io/os": "linux"},
		"podAnnotations": fields{},
		"podLabels":      fields{},
		"podMonitor": fields{
			"enabled": false, "labels": fields{}, "scrapeInterval": "10s", "scrapeTimeout": "10s",
			"controller": fields{"enabled": true, "namespaceSelector": ""}, "proxy": fields{"enabled": true}, "serviceMirror": fields{"enabled": true},
		},
		"policyController": fields{
			"image": image("policy-controller", c.Version), "logLevel": "info",
			"probeNetworks": strings.Split(c.ProbeNetworks.String(), ","), "resources": noResources(),
		},
		"policyValidator":      webhookValues(),
		"priorityClassName":    "",
		"profileValidator":     webhookValues(),
		"prometheusUrl":        "",
		"proxy":                c.proxyValues(),
		"proxyContainerName":   linkerd.ProxyContainerName,
		"proxyInit":            proxyInitValues(),
		"proxyInjector":        injectorValues(),
		"revisionHistoryLimit": 10,
		"runtimeClassName":     "",
		"tolerations":          []any{},
		"webhookFailurePolicy": "Fail",
	})
	return string(text), err
}

func (c Config) identityValues() fields {
	return fields{
		"externalCA":                    false,
		"kubeAPI":                       fields{"clientBurst": 200, "clientQPS": 100},
		"serviceAccountTokenProjection": true,
		"issuer": fields{
			"scheme":             c.IssuerScheme,
			"clockSkewAllowance": c.ClockSkewAllowance.String(),
			"issuanceLifetime":   c.IssuanceLifetime.String(),
			"tls":                fields{"crtPEM": c.issuerCertificate()},
		},
	}
}

func (c Config) proxyValues() fields {
	keepAlive := fields{"server": fields{"http2": fields{"keepAliveInterval": "10s", "keepAliveTimeout": "3s"}}}
	return fields{
		"accessLog":                            "",
		"await":                                true,
		"control":                              fields{"streams": fields{"initialTimeout": "3s", "idleTimeout": "5m", "lifetime": "1h"}},
		"defaultInboundPolicy":                 c.DefaultPolicy,
		"disableInboundProtocolDetectTimeout":  false,
		"disableOutboundProtocolDetectTimeout": false,
		"enableExternalProfiles":               false,
		"enableShutdownEndpoint":               false,
		"gid":                                  -1,
		"image":                                image("proxy", c.ProxyVersion),
		"inbound":                              keepAlive,
		"inboundConnectTimeout":                "100ms",
		"inboundDiscoveryCacheUnusedTimeout":   "90s",
		"isGateway":                            false,
		"isIngress":                            false,
		"livenessProbe":                        fields{"initialDelaySeconds": 10, "timeoutSeconds": 1},
		"logFormat":                            "plain",
		"logHTTPHeaders":                       "off",
		"logLevel":                             "warn,linkerd=info,hickory=error",
		"metrics":                              fields{"hostnameLabels": false},
		"nativeSidecar":                        true,
		"opaquePorts":                          c.DefaultOpaquePorts.String(),
		"outbound":                             keepAlive,
		"outboundConnectTimeout":               "1000ms",
		"outboundDiscoveryCacheUnusedTimeout":  "5s",
		"outboundTransportMode":                c.OutboundTransportMode,
		"podInboundPorts":                      "",
		"ports": fields{
			"admin":    linkerd.ProxyAdminPort,
			"control":  linkerd.ProxyControlPort,
			"inbound":  linkerd.ProxyInboundPort,
			"outbound": linkerd.ProxyOutboundPort,
		},
		"readinessProbe":                fields{"initialDelaySeconds": 2, "timeoutSeconds": 1},
		"requireIdentityOnInboundPorts": "",
		"resources":                     noResources(),
		"runtime":                       fields{"workers": fields{"minimum": 1}},
		"shutdownGracePeriod":           "",
		"startupProbe":                  fields{"failureThreshold": 120, "initialDelaySeconds": 0, "periodSeconds": 1},
		"tracing": fields{
			"enabled": false, "labels": fields{}, "traceServiceName": "linkerd-proxy",
			"collector": fields{"endpoint": "", "meshIdentity": fields{"namespace": "", "serviceAccountName": ""}},
		},
		"uid":                   2102,
		"waitBeforeExitSeconds": 0,
	}
}

func proxyInitValues() fields {
	return fields{
		"closeWaitTimeoutSecs": 0,
		"ignoreInboundPorts":   "4567,4568",
		"ignoreOutboundPorts":  "4567,4568",
		"image":                image("proxy-init", ""),
		"iptablesMode":         "nft",
		"kubeAPIServerPorts":   "443,6443",
		"logFormat":            "",
		"logLevel":             "",
		"privileged":           false,
		"resources":            noResources(),
		"runAsGroup":           65534,
		"runAsRoot":            false,
		"runAsUser":            65534,
		"skipSubnets":          "",
		"xtMountPath":          fields{"mountPath": "/run", "name": "linkerd-proxy-init-xtables-lock"},
	}
}

func webhookValues() fields {
	return fields{
		"caBundle": "", "crtPEM": "", "externalSecret": false, "injectCaFrom": "", "injectCaFromSecret": "",
		"namespaceSelector": &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{webhook.NotSkipped()}},
	}
}

func injectorValues() fields {
	values, hook := webhookValues(), injector.Hook()
	values["namespaceSelector"], values["objectSelector"] = hook.NamespaceSelector, hook.ObjectSelector
	return values
}

func image(name, version string) fields {
	return fields{"name": "cr.l5d.io/linkerd/" + name, "pullPolicy": "", "version": version}
}

func noResources() fields {
	constraints := fields{"limit": "", "request": ""}
	return fields{"cpu": constraints, "ephemeral-storage": constraints, "memory": constraints}
}

func (c Config) issuerCertificate() string {
	if c.Issuer == nil {
		return ""
	}
	return c.Issuer.Certificate
}
