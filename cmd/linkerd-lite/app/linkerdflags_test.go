package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Every flag of Linkerd's destination and policy controllers is taken, with the
// value that the chart sets (D section 4.3, policy-inbound 1.2).
func TestLinkerdFlags(t *testing.T) {
	for _, test := range []struct {
		flag, want, value string
		// idle: the flag does nothing, and says so when it is given.
		idle bool
	}{
		// Addresses: the original listens on all of the pod's; here on loopback.
		{flag: "addr", want: "127.0.0.1:8086", value: "127.0.0.1:0"},
		{flag: "metrics-addr", want: "127.0.0.1:9990", value: "127.0.0.1:0"},
		{flag: "kubeconfig", want: "", value: "file", idle: true},
		{flag: "controller-namespace", want: "linkerd", value: "other"},
		{flag: "outbound-transport-mode", want: "transport-header", value: "transparent"},
		{flag: "enable-h2-upgrade", want: "true", value: "false"},
		{flag: "enable-endpoint-slices", want: "true", value: "false"},
		{flag: "enable-ipv6", want: "false", value: "true"},
		// The chart's trust domain is the cluster's domain.
		{flag: "identity-trust-domain", want: "", value: "example.org"},
		{flag: "cluster-domain", want: "cluster.local", value: "example.org"},
		{flag: "default-opaque-ports", want: "25,587,3306,4444,5432,6379,9300,11211", value: "1-2"},
		{flag: "enable-pprof", want: "false", value: "true"},
		{flag: "export-queue-metrics", want: "true", value: "false", idle: true},
		{flag: "stream-queue-capacity", want: "100", value: "5", idle: true},
		{flag: "ext-endpoint-zone-weights", want: "false", value: "true"},
		{flag: "meshed-http2-client-params", want: `{"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}`, value: ""},
		{flag: "trace-collector", want: "", value: "collector:55678", idle: true},
		// Quieter than the original, whose level is info.
		{flag: "log-level", want: "warn", value: "debug"},
		{flag: "log-format", want: "plain", value: "json"},
		{flag: "version", want: "false", value: "true"},
		// The policy controller's.
		{flag: "grpc-addr", want: "127.0.0.1:8090", value: "127.0.0.1:0"},
		{flag: "server-addr", want: "127.0.0.1:0", value: "127.0.0.1:9443"},
		{flag: "admin-addr", want: "127.0.0.1:9990", value: "127.0.0.1:0"},
		{flag: "control-plane-namespace", want: "linkerd", value: "other"},
		{flag: "identity-domain", want: "", value: "example.org"},
		{flag: "cluster-networks", want: "10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16", value: "10.0.0.1"},
		{flag: "probe-networks", want: "0.0.0.0/0,::/0", value: ""},
		{flag: "default-policy", want: "all-unauthenticated", value: "deny"},
		{flag: "patch-timeout-ms", want: "5000", value: "1"},
		{flag: "policy-deployment-name", want: "linkerd-destination", value: "other"},
		{flag: "allow-l5d-request-headers", want: "false", value: "true"},
		{flag: "global-egress-network-namespace", want: "linkerd-egress", value: "other"},
		{flag: "cluster", want: "", value: "a", idle: true},
		{flag: "context", want: "", value: "a", idle: true},
		{flag: "user", want: "", value: "a", idle: true},
		{flag: "as", want: "", value: "a", idle: true},
		{flag: "as-group", want: "[]", value: "a", idle: true},
		{flag: "kube-api-response-headers-timeout", want: "9s", value: "1s", idle: true},
		{flag: "server-tls-key", want: "", value: "file", idle: true},
		{flag: "server-tls-certs", want: "", value: "file", idle: true},
		{flag: "admission-controller-disabled", want: "false", value: "true", idle: true},
	} {
		for name, command := range map[string]func() *cobra.Command{"up": newUpCommand, "serve": newServeCommand} {
			t.Run(name+" --"+test.flag, func(t *testing.T) {
				t.Setenv("KUBECONFIG", "")
				cmd := command()
				flag := cmd.Flags().Lookup(test.flag)
				if flag == nil {
					t.Fatal("no such flag")
				}
				if flag.DefValue != test.want {
					t.Errorf("default %q, want %q", flag.DefValue, test.want)
				}
				if err := cmd.ParseFlags([]string{"--" + test.flag + "=" + test.value}); err != nil {
					t.Fatal(err)
				}
				idle := test.idle && (name != "serve" || test.flag != "kubeconfig") || name == "serve" && test.flag == "server-addr"
				if got := strings.Contains(flag.Usage, "without effect"); got != idle {
					t.Errorf("usage %q, want one that says that it is idle: %v", flag.Usage, idle)
				}
			})
		}
	}
}

// A flag without effect is answered once, and only when it is given.
func TestIdleFlagsWarn(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	options := newClusterFlags()
	cmd := &cobra.Command{}
	groups := newFlagGroups()
	options.addFlags(groups)
	installFlags(cmd, groups)
	options.plane.linkerd.warn(cmd.Flags(), log)
	if out.Len() > 0 {
		t.Errorf("warned of flags that were not given:\n%s", &out)
	}
	args := []string{"--stream-queue-capacity=7", "--stream-queue-capacity=8", "--trace-collector=c:1", "--export-queue-metrics=false", "--kubeconfig=f", "--enable-ipv6"}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	options.plane.linkerd.warn(cmd.Flags(), log)
	for _, name := range []string{"stream-queue-capacity", "trace-collector", "export-queue-metrics", "kubeconfig"} {
		if n := strings.Count(out.String(), "flag=--"+name+" "); n != 1 {
			t.Errorf("--%s is named %d times in\n%s", name, n, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, &out)
	}
}

// What cannot be is refused before anything starts.
func TestFlagsRefused(t *testing.T) {
	rulebook.Covers(t, "D148")
	for _, test := range []struct{ name, args, want string }{
		{"D148 queue of nothing", "--stream-queue-capacity=0", "--stream-queue-capacity=0: must be above zero"},
		{"D148 negative queue", "--stream-queue-capacity=-1", "--stream-queue-capacity=-1: must be above zero"},
		{"D148 IPv6 without slices", "--enable-ipv6 --enable-endpoint-slices=false", "exclude each other"},
		{"cluster networks", "--cluster-networks=10.0.0.0/33", "--cluster-networks=10.0.0.0/33: "},
		{"probe networks", "--probe-networks=all", "--probe-networks=all: "},
		{"unknown transport mode", "--outbound-transport-mode=tls", "must be transport-header or transparent"},
	} {
		for _, command := range []string{"up", "serve"} {
			t.Run(command+" "+test.name, func(t *testing.T) {
				var stderr bytes.Buffer
				code := Main(append([]string{command}, strings.Fields(test.args)...), nil, &bytes.Buffer{}, &stderr)
				if code != exitUsage || !strings.Contains(stderr.String(), test.want) {
					t.Errorf("exit code %d, want %d; said %q, want %q", code, exitUsage, &stderr, test.want)
				}
			})
		}
	}
}

func TestVersionFlag(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"up", "--version"}, {"serve", "--version"}} {
		var stdout bytes.Buffer
		if code := Main(args, nil, &stdout, &bytes.Buffer{}); code != 0 || stdout.String() != versionText() {
			t.Errorf("%v: exit code %d, said %q", args, code, &stdout)
		}
	}
}
