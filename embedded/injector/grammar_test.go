package injector_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"

	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity/identitytest"
)

// What a proxy reads (proxy section 3). A variable that it cannot read ends it.
var (
	durationGrammar = regexp.MustCompile(`^(?:0|[0-9]{1,15}(?:ms|s|m|h|d))$`)
	coresGrammar    = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)
	// A part of a log filter of tracing_subscriber.
	logGrammar    = regexp.MustCompile(`^(?i:[\w:-]+|(?:[\w:-]*\[[^\]]*\]|[\w:-]+)=(?:trace|debug|info|warn|error|off|[0-5])|[\w:-]*\[[^\]]*\])$`)
	dnsGrammar    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	suffixGrammar = regexp.MustCompile(`^(?:\.|[a-z0-9][-a-z0-9.]*\.)$`)
)

func oneOf(values ...string) func(string) bool {
	return func(value string) bool { return slices.Contains(values, value) }
}

func isPortSet(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		l, err1 := strconv.ParseUint(low, 10, 16)
		h, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || l > h {
			return false
		}
	}
	return true
}

func isSocket(value string) bool {
	at, err := netip.ParseAddrPort(value)
	return err == nil && at.Port() > 0
}

func isSockets(value string) bool {
	parts := strings.Split(value, ",")
	return len(parts) <= 2 && !slices.ContainsFunc(parts, func(part string) bool { return !isSocket(part) })
}

func isNetworks(value string) bool {
	return !slices.ContainsFunc(strings.Split(value, ","), func(part string) bool { _, err := netip.ParsePrefix(part); return err != nil })
}

func isControl(value string) bool {
	host, port, err := net.SplitHostPort(value)
	_, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && suffixGrammar.MatchString(host)
}

func isObject(value string) bool {
	var object map[string]string
	return json.Unmarshal([]byte(value), &object) == nil
}

func isLog(value string) bool {
	return !slices.ContainsFunc(strings.Split(value, ","), func(part string) bool { return !logGrammar.MatchString(part) })
}

func isRatio(value string) bool {
	ratio, err := strconv.ParseFloat(value, 64)
	return err == nil && ratio > 0 && ratio <= 1
}

var anyText = func(value string) bool { return value != "" }

// grammars are all variables that the injector may write, without their prefix.
var grammars = map[string]func(string) bool{
	"CORES": coresGrammar.MatchString, "CORES_MIN": coresGrammar.MatchString, "CORES_MAX": coresGrammar.MatchString, "CORES_MAX_RATIO": isRatio,
	"LOG": isLog, "LOG_FORMAT": oneOf("plain", "json"), "ACCESS_LOG": oneOf("apache", "json"),
	"INBOUND_DEFAULT_POLICY": oneOf("deny", "all-authenticated", "all-unauthenticated", "cluster-authenticated", "cluster-unauthenticated", "audit"),

	"INBOUND_CONNECT_TIMEOUT": durationGrammar.MatchString, "OUTBOUND_CONNECT_TIMEOUT": durationGrammar.MatchString,
	"INBOUND_DISCOVERY_IDLE_TIMEOUT": durationGrammar.MatchString, "OUTBOUND_DISCOVERY_IDLE_TIMEOUT": durationGrammar.MatchString,
	"SHUTDOWN_GRACE_PERIOD": durationGrammar.MatchString, "SHUTDOWN_ENDPOINT_ENABLED": oneOf("true", "false"),
	"INBOUND_DETECT_TIMEOUT": durationGrammar.MatchString, "OUTBOUND_DETECT_TIMEOUT": durationGrammar.MatchString,
	"OUTBOUND_METRICS_HOSTNAME_LABELS": oneOf("true", "false"), "INGRESS_MODE": oneOf("true", "false"),

	"INBOUND_LISTEN_ADDR": isSocket, "ADMIN_LISTEN_ADDR": isSocket, "CONTROL_LISTEN_ADDR": isSocket, "OUTBOUND_LISTEN_ADDR": isSocket, "OUTBOUND_LISTEN_ADDRS": isSockets,
	"INBOUND_IPS": oneOf("$(_pod_ips)"), "INBOUND_PORTS": isPortSet, "INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION": isPortSet,
	"INBOUND_GATEWAY_SUFFIXES": suffixGrammar.MatchString, "DESTINATION_PROFILE_SUFFIXES": suffixGrammar.MatchString,
	"DESTINATION_PROFILE_NETWORKS": isNetworks, "POLICY_CLUSTER_NETWORKS": isNetworks,

	"CONTROL_STREAM_INITIAL_TIMEOUT": durationGrammar.MatchString, "CONTROL_STREAM_IDLE_TIMEOUT": durationGrammar.MatchString, "CONTROL_STREAM_LIFETIME": durationGrammar.MatchString,
	"INBOUND_ACCEPT_KEEPALIVE": durationGrammar.MatchString, "OUTBOUND_CONNECT_KEEPALIVE": durationGrammar.MatchString,
	"INBOUND_ACCEPT_USER_TIMEOUT": durationGrammar.MatchString, "OUTBOUND_CONNECT_USER_TIMEOUT": durationGrammar.MatchString,
	"INBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL": durationGrammar.MatchString, "INBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT": durationGrammar.MatchString,
	"OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_INTERVAL": durationGrammar.MatchString, "OUTBOUND_SERVER_HTTP2_KEEP_ALIVE_TIMEOUT": durationGrammar.MatchString,

	"DESTINATION_SVC_ADDR": isControl, "POLICY_SVC_ADDR": isControl, "IDENTITY_SVC_ADDR": isControl,
	"DESTINATION_SVC_NAME": dnsGrammar.MatchString, "POLICY_SVC_NAME": dnsGrammar.MatchString, "IDENTITY_SVC_NAME": dnsGrammar.MatchString,
	"DESTINATION_CONTEXT": isObject, "POLICY_WORKLOAD": isObject, "IDENTITY_LOCAL_NAME": dnsGrammar.MatchString,
	"IDENTITY_DIR": anyText, "IDENTITY_TOKEN_FILE": anyText, "IDENTITY_TRUST_ANCHORS": anyText,
}

// annotations are all that shape the environment, but for
// proxy-additional-env, whose variables are the user's own.
var annotations = []string{
	"admin-port", "control-port", "inbound-port", "outbound-port", "pod-inbound-ports", "opaque-ports", "default-inbound-policy",
	"proxy-cpu-request", "proxy-cpu-limit", "proxy-cpu-ratio-limit", "proxy-memory-limit",
	"proxy-log-level", "proxy-log-format", "proxy-log-http-headers", "access-log", "proxy-admin-shutdown",
	"proxy-outbound-connect-timeout", "proxy-inbound-connect-timeout", "shutdown-grace-period",
	"proxy-outbound-discovery-cache-unused-timeout", "proxy-inbound-discovery-cache-unused-timeout",
	"proxy-disable-outbound-protocol-detect-timeout", "proxy-disable-inbound-protocol-detect-timeout",
	"proxy-metrics-hostname-labels", "enable-external-profiles", "enable-gateway", "proxy-enable-native-sidecar",
}

// values are good for one annotation and bad for others.
var values = []string{
	"", " ", "0", "1", "-1", "80", "65535", "65536", "1.5", "0.25", "NaN", "Inf", "1e-1000000000", "1e1000000000", "1e999", "1500m", "2", "10Gi", "9E",
	"1.5s", "1m30s", "-5s", "1h", "500us", "5", "100000h", "9223372036854775807ns", "1ms ", "365d", "+3s", ".5s",
	"true", "enabled", "disabled", "on", "sometimes", "deny", "audit", "all-authenticated",
	"http", "admin,http", "8080,http,none,9-8,1-70000,,", "1-2,2-3", "25, 587 ", "0-65535", "80-", "http-admin",
	"debug", "WARN", "linkerd=debug,[{headers}]=off", "linkerd=loud", "info,,warn", "a[b{c=d,e}]=info", "[{", "=info", "foo=", "plain", "json", "JSON", "apache", "insecure",
	"$(_pod_name)", "$$", "a\nb", "\x00", "ä", strings.Repeat("9", 500),
}

// A proxy can read all that the injector writes, whatever the
// annotations of pods and namespaces say; and so can the stand-in.
func TestProxyReadsItsEnvironment(t *testing.T) {
	rulebook.Covers(t, "H1, H2, H6")
	anchors := string(identitytest.NewCA(t, "root", time.Now().Add(time.Hour), nil).PEM())
	value := rapid.OneOf(rapid.SampledFrom(values), rapid.String())
	some := rapid.MapOfN(rapid.SampledFrom(annotations), value, 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		prefixed := func(label string) map[string]string {
			out := map[string]string{"linkerd.io/inject": rapid.SampledFrom([]string{"enabled", "ingress"}).Draw(t, label+" inject")}
			for name, value := range some.Draw(t, label) {
				out["config.linkerd.io/"+name] = value
			}
			return out
		}
		pod := corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Annotations: prefixed("pod")},
			Spec: corev1.PodSpec{ServiceAccountName: "web", Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{
				{Name: "http", ContainerPort: rapid.Int32().Draw(t, "port")}, {Name: "admin", ContainerPort: 9990}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP},
			}}}},
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: prefixed("namespace")}}
		i := injector.New(injector.Config{Settings: dualStack(rapid.Bool().Draw(t, "IPv6")), TrustAnchors: anchors}, injector.NewLookup(fake.NewClientset(namespace)))
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		response := i.Review(t.Context(), request("Pod", "ns", raw))
		if !response.Allowed || len(response.Patch) == 0 {
			t.Fatalf("not injected: %v", response.Result)
		}
		env := proxyEnv(t, response.Patch)
		for name, value := range env {
			if grammar, ok := grammars[name]; !ok {
				t.Errorf("%s is no variable of the proxy", name)
			} else if !grammar(strings.TrimSuffix(value, "\n")) {
				t.Errorf("a proxy cannot read %s=%q", name, value)
			}
		}
		env["INBOUND_IPS"] = "10.244.0.5,fd00::5"
		if _, err := dataplane.FromEnvironment(func(name string) string { return env[strings.TrimPrefix(name, "LINKERD2_PROXY_")] }, slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("the stand-in cannot read it: %v", err)
		}
	})
}

// proxyEnv are the variables with literal values of the container that a patch adds.
func proxyEnv(t interface{ Fatal(...any) }, patch []byte) map[string]string {
	var operations []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for _, operation := range operations {
		var containers []corev1.Container
		var container corev1.Container
		switch {
		case strings.HasSuffix(operation.Path, "ontainers"):
			if err := json.Unmarshal(operation.Value, &containers); err != nil {
				t.Fatal(err)
			}
			container = containers[0]
		case strings.Contains(operation.Path, "ontainers/"):
			if err := json.Unmarshal(operation.Value, &container); err != nil {
				t.Fatal(err)
			}
		}
		for _, v := range container.Env {
			if name, ok := strings.CutPrefix(v.Name, "LINKERD2_PROXY_"); ok && v.ValueFrom == nil {
				vars[name] = v.Value
			}
		}
	}
	if len(vars) == 0 {
		t.Fatal("no variables")
	}
	return vars
}

// What annotations become, as Linkerd converts them.
func TestAnnotationsBecomeVariables(t *testing.T) {
	rulebook.Covers(t, "H1, H2, H6")
	for _, test := range []struct {
		annotation, value string
		want              map[string]string // without prefix; empty where the variable is not set
		warns             bool
	}{
		{"proxy-outbound-connect-timeout", "1.5s", map[string]string{"OUTBOUND_CONNECT_TIMEOUT": "1500ms"}, false},
		{"proxy-inbound-connect-timeout", "1m", map[string]string{"INBOUND_CONNECT_TIMEOUT": "60000ms"}, false},
		{"shutdown-grace-period", "1m30s", map[string]string{"SHUTDOWN_GRACE_PERIOD": "90000ms"}, false},
		{"proxy-outbound-discovery-cache-unused-timeout", "90.9s", map[string]string{"OUTBOUND_DISCOVERY_IDLE_TIMEOUT": "90s"}, false},
		{"proxy-inbound-discovery-cache-unused-timeout", "2m", map[string]string{"INBOUND_DISCOVERY_IDLE_TIMEOUT": "120s"}, false},
		{"proxy-outbound-connect-timeout", "-1s", map[string]string{"OUTBOUND_CONNECT_TIMEOUT": "1000ms"}, true},
		{"proxy-inbound-connect-timeout", "100", map[string]string{"INBOUND_CONNECT_TIMEOUT": "100ms"}, true},
		{"shutdown-grace-period", "forever", map[string]string{"SHUTDOWN_GRACE_PERIOD": ""}, true},
		{"proxy-outbound-discovery-cache-unused-timeout", "x", map[string]string{"OUTBOUND_DISCOVERY_IDLE_TIMEOUT": "5s"}, true},
		{"opaque-ports", "http,3306,admin", map[string]string{"INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION": "8080,3306,9990"}, false},
		{"opaque-ports", "http,none,5-1,99999,25-27", map[string]string{"INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION": "8080,25-27"}, true},
		{"opaque-ports", "", map[string]string{"INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION": ""}, false},
		{"default-inbound-policy", "sometimes", map[string]string{"INBOUND_DEFAULT_POLICY": "all-unauthenticated"}, true},
		{"default-inbound-policy", "deny", map[string]string{"INBOUND_DEFAULT_POLICY": "deny"}, false},
		{"proxy-admin-shutdown", "enabled", map[string]string{"SHUTDOWN_ENDPOINT_ENABLED": "true"}, false},
		{"proxy-admin-shutdown", "disabled", map[string]string{"SHUTDOWN_ENDPOINT_ENABLED": ""}, false},
		{"proxy-log-level", "debug", map[string]string{"LOG": "debug,[{headers}]=off,[{request}]=off"}, false},
		{"proxy-log-http-headers", "insecure", map[string]string{"LOG": "warn,linkerd=info,hickory=error"}, false},
		{"proxy-cpu-limit", "1500m", map[string]string{"CORES_MIN": "1", "CORES_MAX": "2", "CORES": "2"}, false},
		{"proxy-cpu-request", "2100m", map[string]string{"CORES_MIN": "3", "CORES_MAX": ""}, false},
		{"proxy-cpu-request", "100m", map[string]string{"CORES_MIN": "1", "CORES_MAX": ""}, false},
		{"proxy-cpu-ratio-limit", "0.5", map[string]string{"CORES_MIN": "1", "CORES_MAX_RATIO": "0.5"}, false},
		{"proxy-cpu-ratio-limit", "2", map[string]string{"CORES_MAX_RATIO": ""}, true},
		{"proxy-cpu-limit", "1e1000000000", map[string]string{"CORES_MAX": ""}, true},
	} {
		t.Run(test.annotation+" "+test.value, func(t *testing.T) {
			raw := podJSON(t, func(p *corev1.Pod) {
				p.Annotations = map[string]string{"linkerd.io/inject": "enabled", "config.linkerd.io/" + test.annotation: test.value}
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "admin", ContainerPort: 9990}}
			})
			response := injector.New(injector.Config{Settings: linkerd.DefaultSettings()}, injector.NewLookup(fake.NewClientset())).Review(t.Context(), request("Pod", "ns", raw))
			env := proxyEnv(t, response.Patch)
			for _, name := range slices.Sorted(maps.Keys(test.want)) {
				if env[name] != test.want[name] {
					t.Errorf("%s is %q, want %q", name, env[name], test.want[name])
				}
			}
			if (len(response.Warnings) > 0) != test.warns {
				t.Errorf("warnings %q", response.Warnings)
			}
		})
	}
}

// Whatever computes a quantity refuses one that takes for ever.
func TestQuantitiesAreBounded(t *testing.T) {
	rulebook.Covers(t, "F7")
	i := injector.New(injector.Config{Default: true, Settings: linkerd.DefaultSettings()}, injector.NewLookup(fake.NewClientset()))
	for name, pod := range map[string]string{
		"cpu request":   `{"metadata":{"annotations":{"config.linkerd.io/proxy-cpu-request":"1e-1000000000"}}}`,
		"memory limit":  `{"metadata":{"annotations":{"config.linkerd.io/proxy-memory-limit":"1e1000000000"}}}`,
		"a divisor":     `{"metadata":{"annotations":{"config.linkerd.io/proxy-additional-env":"[{\"name\":\"A\",\"valueFrom\":{\"resourceFieldRef\":{\"divisor\":\"1e-1000000000\"}}}]"}}}`,
		"a digit less":  `{"metadata":{"annotations":{"config.linkerd.io/proxy-cpu-limit":"` + strings.Repeat("9", 1<<20) + `"}}}`,
		"in the ratio":  `{"metadata":{"annotations":{"config.linkerd.io/proxy-cpu-ratio-limit":"1e-1000000000"}}}`,
		"in the Pod":    `{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1e-1000000000"}}}]}}`,
		"in a Pod's ED": `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":1e1000000000}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			response := i.Review(t.Context(), request("Pod", "ns", []byte(pod)))
			if response.Allowed && len(response.Warnings) == 0 {
				t.Error("nothing is said of it")
			}
		})
	}
}
