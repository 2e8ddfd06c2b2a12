package dataplane_test

import (
	"log/slog"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
)

// environment is what a proxy cannot do without, and what is given, without the
// prefix of names.
func environment(t *testing.T, given map[string]string) func(string) string {
	env := map[string]string{
		"DESTINATION_SVC_ADDR": "linkerd-dst-headless.linkerd.svc.cluster.local.:8086", "DESTINATION_SVC_NAME": "d", "DESTINATION_CONTEXT": "{}\n",
		"POLICY_SVC_ADDR": "linkerd-policy.linkerd.svc.cluster.local.:8090", "POLICY_SVC_NAME": "p", "POLICY_WORKLOAD": "{}\n",
		"IDENTITY_SVC_ADDR": "linkerd-identity-headless.linkerd.svc.cluster.local.:8080", "IDENTITY_SVC_NAME": "i",
		"IDENTITY_LOCAL_NAME": identityOf("web"), "IDENTITY_DIR": t.TempDir(), "IDENTITY_TOKEN_FILE": "token",
		"IDENTITY_TRUST_ANCHORS": string(identitytest.NewCA(t, "root", time.Now().Add(time.Hour), nil).PEM()),
	}
	for name, value := range given {
		env[name] = value
	}
	return func(name string) string { return env[strings.TrimPrefix(name, "LINKERD2_PROXY_")] }
}

func TestFromEnvironment(t *testing.T) {
	c, err := dataplane.FromEnvironment(environment(t, map[string]string{
		"INBOUND_IPS": "10.1.0.2,fd00::2", "INBOUND_PORTS": "80,8080-8082,0", "OUTBOUND_LISTEN_ADDRS": "127.0.0.1:4140,[::1]:4140",
		"SHUTDOWN_GRACE_PERIOD": "90000ms", "INBOUND_DETECT_TIMEOUT": "365d", "IDENTITY_MAX_REFRESH": "999999999999999d", "OUTBOUND_DISCOVERY_IDLE_TIMEOUT": "0",
		"INGRESS_MODE": "true", "DESTINATION_PROFILE_NETWORKS": "10.0.0.0/8,fd00::/8", "INBOUND_DEFAULT_POLICY": "deny",
	}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, got, want any }{
		{"addresses", c.InboundIPs, []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}},
		{"ports", c.InboundPorts, []uint16{80, 8080, 8081, 8082}},
		{"outbound", c.Outbound, []string{"127.0.0.1:4140", "[::1]:4140"}},
		{"inbound", c.Inbound, "0.0.0.0:4143"},
		{"grace", c.Grace, 90 * time.Second},
		{"detection", c.InboundDetect, 365 * 24 * time.Hour},
		{"for ever", c.MaxRefresh, time.Duration(math.MaxInt64)},
		{"not at all", c.OutboundIdle, time.Duration(0)},
		{"otherwise", c.InboundIdle, 90 * time.Second},
		{"ingress", c.IngressMode, true},
		{"networks", len(c.ProfileNetworks), 2},
		{"the key is made", c.Workload.Request.Identity, identityOf("web")},
		{"the token of policy", c.Workload.PolicyWorkload, "{}\n"},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
}

func TestFromEnvironmentRefuses(t *testing.T) {
	for name, value := range map[string]string{
		"INBOUND_CONNECT_TIMEOUT": "1.5s", "OUTBOUND_CONNECT_TIMEOUT": "5", "SHUTDOWN_GRACE_PERIOD": "s", "INGRESS_MODE": "yes",
		"INBOUND_IPS": "web", "INBOUND_PORTS": "2-1", "DESTINATION_PROFILE_NETWORKS": "10.0.0.0", "INBOUND_DEFAULT_POLICY": "sometimes",
		"POLICY_SVC_NAME": "",
	} {
		_, err := dataplane.FromEnvironment(environment(t, map[string]string{name: value}), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, value, err)
		}
	}
	if _, err := dataplane.FromEnvironment(environment(t, map[string]string{"INBOUND_DEFAULT_POLICY": "cluster-authenticated"}), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a policy of cluster networks without any is taken")
	}
}
