package injector

import (
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

const envPrefix = "LINKERD2_PROXY_"

// timeoutEnv are variables that hold durations.
var timeoutEnv = []struct {
	name, annotation, otherwise string
	unit                        time.Duration
}{
	{"INBOUND_CONNECT_TIMEOUT", "config.linkerd.io/proxy-inbound-connect-timeout", "100ms", time.Millisecond},
	{"OUTBOUND_CONNECT_TIMEOUT", "config.linkerd.io/proxy-outbound-connect-timeout", "1000ms", time.Millisecond},
	{"INBOUND_DISCOVERY_IDLE_TIMEOUT", "config.linkerd.io/proxy-inbound-discovery-cache-unused-timeout", "90s", time.Second},
	{"OUTBOUND_DISCOVERY_IDLE_TIMEOUT", "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout", "5s", time.Second},
	{"SHUTDOWN_GRACE_PERIOD", "config.linkerd.io/shutdown-grace-period", "", time.Millisecond},
}

// switchedEnv are variables that are set if an annotation is true.
var switchedEnv = []struct{ name, annotation, value string }{
	{"INBOUND_DETECT_TIMEOUT", "config.linkerd.io/proxy-disable-inbound-protocol-detect-timeout", "365d"},
	{"OUTBOUND_DETECT_TIMEOUT", "config.linkerd.io/proxy-disable-outbound-protocol-detect-timeout", "365d"},
	{"OUTBOUND_METRICS_HOSTNAME_LABELS", "config.linkerd.io/proxy-metrics-hostname-labels", "true"},
}

// inboundPolicies are the default policies that a proxy knows.
var inboundPolicies = []string{"all-unauthenticated", "all-authenticated", "cluster-unauthenticated", "cluster-authenticated", "deny", "audit"}

// environment is that of a proxy of the 2.20 chart. A proxy that cannot read one
// of its variables ends, so values of annotations are converted, and those that
// mean nothing are warned of and not used. Variables that a user gives by
// proxy-additional-env are the user's. What is known now is
// written out, because readers of the spec do not resolve references; what is
// known only later refers to fields of the pod.
func (s *settings) environment(inbound, admin int32) []corev1.EnvVar {
	var env []corev1.EnvVar
	field := func(name, path string) {
		env = append(env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}})
	}
	set := func(name, value string) {
		if value != "" {
			env = append(env, corev1.EnvVar{Name: envPrefix + name, Value: value})
		}
	}
	field("_pod_name", "metadata.name")
	field("_pod_nodeName", "spec.nodeName")
	field("_pod_ips", "status.podIPs")
	s.workers(set)
	s.logging(set)
	set("INBOUND_DEFAULT_POLICY", s.choice(linkerd.DefaultInboundPolicyAnnotation, s.config.DefaultPolicy, inboundPolicies...))
	for _, e := range timeoutEnv {
		set(e.name, s.duration(e.annotation, e.otherwise, e.unit))
	}
	for _, e := range switchedEnv {
		if s.bool(e.annotation, false) {
			set(e.name, e.value)
		}
	}
	if s.switched("config.linkerd.io/proxy-admin-shutdown", false) {
		set("SHUTDOWN_ENDPOINT_ENABLED", "true")
	}
	s.addresses(set, inbound, admin)
	if s.mode == injectIngress {
		set("INGRESS_MODE", "true")
	}
	if s.bool("config.linkerd.io/enable-gateway", false) {
		set("INBOUND_GATEWAY_SUFFIXES", "svc."+s.config.ClusterDomain+".")
	}
	set("INBOUND_IPS", "$(_pod_ips)")
	set("INBOUND_PORTS", s.inboundPorts())
	set("INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION", s.opaquePorts())
	set("DESTINATION_PROFILE_SUFFIXES", s.profileSuffixes())
	networks := s.config.ProxyNetworks().String()
	set("DESTINATION_PROFILE_NETWORKS", networks)
	set("POLICY_CLUSTER_NETWORKS", networks)
	for _, limit := range []struct{ name, value string }{
		{"CONTROL_STREAM_INITIAL_TIMEOUT", "3s"},
		{"CONTROL_STREAM_IDLE_TIMEOUT", "5m"},
		{"CONTROL_STREAM_LIFETIME", "1h"},
		{"INBOUND_ACCEPT_KEEPALIVE", "10000ms"},
		{"OUTBOUND_CONNECT_KEEPALIVE", "10000ms"},
		{"INBOUND_ACCEPT_USER_TIMEOUT", "30s"},
		{"OUTBOUND_CONNECT_USER_TIMEOUT", "30s"},
		{"INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"},
		{"INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"},
		{"OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL", "10s"},
		{"OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT", "3s"},
	} {
		set(limit.name, limit.value)
	}
	s.names(set)
	return s.additional(env)
}

// addresses are those that the proxy listens on.
func (s *settings) addresses(set func(name, value string), inbound, admin int32) {
	outbound := strconv.Itoa(int(s.port("config.linkerd.io/outbound-port", linkerd.ProxyOutboundPort)))
	set("INBOUND_LISTEN_ADDR", s.listen(inbound))
	set("ADMIN_LISTEN_ADDR", s.listen(admin))
	set("CONTROL_LISTEN_ADDR", s.listen(s.port("config.linkerd.io/control-port", linkerd.ProxyControlPort)))
	local := net.JoinHostPort("127.0.0.1", outbound)
	set("OUTBOUND_LISTEN_ADDR", local)
	if s.config.EnableIPv6 {
		local += "," + net.JoinHostPort("::1", outbound)
	}
	set("OUTBOUND_LISTEN_ADDRS", local)
}

// names are those of the control plane and of the pod itself.
func (s *settings) names(set func(name, value string)) {
	set("DESTINATION_SVC_ADDR", s.controlPlaneAddress("linkerd-dst-headless", linkerd.DestinationPort))
	set("DESTINATION_SVC_NAME", s.controlPlaneName("linkerd-destination"))
	set("DESTINATION_CONTEXT", `{"ns":"`+s.pod.Namespace+`", "nodeName":"$(_pod_nodeName)", "pod":"$(_pod_name)"}`+"\n")
	set("POLICY_SVC_ADDR", s.controlPlaneAddress("linkerd-policy", linkerd.PolicyPort))
	set("POLICY_SVC_NAME", s.controlPlaneName("linkerd-destination"))
	set("POLICY_WORKLOAD", `{"ns":"`+s.pod.Namespace+`", "pod":"$(_pod_name)"}`+"\n")
	set("IDENTITY_SVC_ADDR", s.controlPlaneAddress("linkerd-identity-headless", linkerd.IdentityPort))
	set("IDENTITY_SVC_NAME", s.controlPlaneName("linkerd-identity"))
	set("IDENTITY_LOCAL_NAME", s.identity())
	set("IDENTITY_DIR", "/var/run/linkerd/identity/end-entity")
	set("IDENTITY_TOKEN_FILE", "/var/run/secrets/tokens/linkerd-identity-token")
	set("IDENTITY_TRUST_ANCHORS", s.config.TrustAnchors)
}
