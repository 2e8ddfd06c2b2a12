package destination

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// address describes a WeightedAddr in one line; parts that are absent are left out.
func describe(w *pb.WeightedAddr) string {
	parts := []string{}
	hint := w.ProtocolHint
	switch {
	case hint == nil:
	case hint.GetH2() != nil:
		parts = append(parts, "h2")
	case hint.GetOpaque() != nil:
		parts = append(parts, "opaque")
	default:
		parts = append(parts, "hint")
	}
	if t := hint.GetOpaqueTransport(); t != nil {
		parts = append(parts, "via:"+itoa(t.InboundPort))
	}
	if w.Http2 != nil {
		parts = append(parts, "http2")
	}
	if dns := w.TlsIdentity.GetDnsLikeIdentity(); dns != nil {
		parts = append(parts, "dns:"+dns.Name)
	}
	if uri := w.TlsIdentity.GetUriLikeIdentity(); uri != nil {
		parts = append(parts, "uri:"+uri.Uri)
	}
	if name := w.TlsIdentity.GetServerName(); name != nil {
		parts = append(parts, "sni:"+name.Name)
	}
	if o := w.AuthorityOverride; o != nil {
		parts = append(parts, "authority:"+o.AuthorityOverride)
	}
	if w.Weight != 10000 {
		parts = append(parts, "weight:"+itoa(w.Weight))
	}
	return strings.Join(parts, " ")
}

func itoa(n uint32) string {
	digits := []byte{}
	for ; n > 0; n /= 10 {
		digits = append([]byte{byte('0' + n%10)}, digits...)
	}
	return string(digits)
}

const (
	podTLS     = " dns:default.ns.serviceaccount.identity.linkerd.cluster.local sni:default.ns.serviceaccount.identity.linkerd.cluster.local"
	podLabels1 = "control_plane_ns=linkerd pod=name1-1 serviceaccount=default zone= zone_locality=unknown"
)

func namedPorts(pod *corev1.Pod) {
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8989}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Ports: []corev1.ContainerPort{{Name: "sidecar", ContainerPort: 8990}}}}
}

func nativeSidecar(pod *corev1.Pod) {
	proxy := pod.Spec.Containers[1]
	proxy.Env[0].Value = "[::]:4143"
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, proxy)
	pod.Spec.Containers = pod.Spec.Containers[:1]
}

func withoutProxy(pod *corev1.Pod) { pod.Spec.Containers = pod.Spec.Containers[:1] }

func proxyEnv(name, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		env := pod.Spec.Containers[1].Env
		for i := range env {
			if env[i].Name == name {
				env[i].Value = value
			}
		}
	}
}

func header(c *Config)    { c.OutboundTransportMode = linkerd.TransportHeader }
func noUpgrade(c *Config) { c.EnableH2Upgrade = false }
func params(c *Config)    { c.MeshedHTTP2ClientParams = linkerd.DefaultMeshedHTTP2Params }

func edits(all ...func(*Config)) func(*Config) {
	return func(c *Config) {
		for _, edit := range all {
			edit(c)
		}
	}
}

func TestGetMetadata(t *testing.T) {
	opaquePorts := func(list string) func(*corev1.Pod) { return annotated(linkerd.OpaquePortsAnnotation, list) }
	bothNamed := func(pod *corev1.Pod) {
		namedPorts(pod)
		pod.Spec.InitContainers[0].Ports[0].Name = "http"
	}
	gateway := func(identity string) string {
		return "kind: EndpointSlice\nmetadata:\n  namespace: ns\n  name: a\n  labels: {kubernetes.io/service-name: name1, mirror.linkerd.io/cluster-name: east}\n" +
			"  annotations: {mirror.linkerd.io/remote-gateway-identity: '" + identity + "', mirror.linkerd.io/remote-svc-fq-name: a.b.svc.c}\n" +
			"addressType: IPv4\nports: [{name: '', port: 9999}]\nendpoints: [{addresses: [10.0.0.12], zone: z}]\n"
	}
	group := ", ownerReferences: [{kind: WorkloadGroup, name: wg}]"
	vmServer := "kind: Server\nmetadata: {namespace: ns, name: s}\nspec: {externalWorkloadSelector: {matchLabels: {app: vm}}, port: http, proxyProtocol: opaque}\n"
	vmSlice := sliceYAML("a", 8989, "10.0.0.12 ew:vm, zone: z")
	vmProxy := strings.Replace(workloadYAML("vm", "10.0.0.12", ""), "port: 8989}", "port: 8989}, {name: linkerd-proxy, port: 1111}", 1)
	for _, test := range []struct {
		name string
		edit func(*Config)
		// pod edits the Pod that backs the endpoint.
		pod     []func(*corev1.Pod)
		port    int
		objects []string
		token   string
		// want is the address as by describe, labels its labels.
		want, labels string
		// none: the address is left out of an Add that has the set's labels.
		none      bool
		setLabels string
	}{
		{name: "D01", want: "h2" + podTLS, labels: podLabels1},
		{name: "D53 local", token: "na", objects: []string{nodeYAML("na", "a"), sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 serviceaccount=default zone=a zone_locality=local"},
		{name: "D53 remote", token: "nb", objects: []string{nodeYAML("nb", "b"), sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 serviceaccount=default zone=a zone_locality=remote"},
		{name: "D53 unknown", token: "nx", objects: []string{sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 serviceaccount=default zone=a zone_locality=unknown"},
		{name: "D54 local", edit: func(c *Config) { c.ExtEndpointZoneWeights = true }, token: "na", objects: []string{nodeYAML("na", "a"), sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")},
			want: "h2" + podTLS + " weight:100000"},
		{name: "D54 remote", edit: func(c *Config) { c.ExtEndpointZoneWeights = true }, token: "nb", objects: []string{nodeYAML("nb", "b"), sliceYAML("a", 8989, "10.0.0.12 name1-1, zone: a")},
			want: "h2" + podTLS},
		{name: "D55", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs"), labelled("pod-template-hash", "h"), func(p *corev1.Pod) { p.Spec.ServiceAccountName = "sa1" }},
			objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Deployment, name: web}]}\n"},
			want:    strings.ReplaceAll("h2"+podTLS, "default.ns", "sa1.ns"),
			labels:  "control_plane_ns=linkerd deployment=web pod=name1-1 pod_template_hash=h serviceaccount=sa1 zone= zone_locality=unknown"},
		{name: "D56 job", pod: []func(*corev1.Pod){ownedBy("Job", "j")}, objects: []string{"kind: Job\nmetadata: {namespace: ns, name: j}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd k8s_job=j pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D56 cronjob", pod: []func(*corev1.Pod){ownedBy("Job", "j")}, objects: []string{"kind: Job\nmetadata: {namespace: ns, name: j, ownerReferences: [{kind: CronJob, name: c}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd cronjob=c pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D57", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Rollout, name: r}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 replicaset=rs serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 ReplicaSet that is not there", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 replicaset=rs serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 Job of two owners", pod: []func(*corev1.Pod){ownedBy("Job", "j")}, objects: []string{"kind: Job\nmetadata: {namespace: ns, name: j, ownerReferences: [{kind: Deployment, name: web}, {kind: CronJob, name: c}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd k8s_job=j pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 ReplicaSet of two owners", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Deployment, name: web}, {kind: CronJob, name: c}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 replicaset=rs serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 ReplicaSet of a StatefulSet", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: StatefulSet, name: x}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 serviceaccount=default statefulset=x zone= zone_locality=unknown"},
		{name: "D 1.9 ReplicaSet of a DAEMONSET", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: DAEMONSET, name: x}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd daemonset=x pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 ReplicaSet of a Job", pod: []func(*corev1.Pod){ownedBy("ReplicaSet", "rs")}, objects: []string{"kind: ReplicaSet\nmetadata: {namespace: ns, name: rs, ownerReferences: [{kind: Job, name: x}]}\n"}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd k8s_job=x pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D 1.9 StatefulSet", pod: []func(*corev1.Pod){ownedBy("StatefulSet", "s")}, want: "h2" + podTLS,
			labels: "control_plane_ns=linkerd pod=name1-1 serviceaccount=default statefulset=s zone= zone_locality=unknown"},
		{name: "D58", edit: edits(params, header), pod: []func(*corev1.Pod){unmeshed}, labels: "pod=name1-1 serviceaccount=default zone= zone_locality=unknown"},
		{name: "D58 opaque", edit: header, pod: []func(*corev1.Pod){unmeshed, opaquePorts("8989")}},
		{name: "D59", edit: params, pod: []func(*corev1.Pod){labelled(linkerd.ControlPlaneNSLabel, "other")}, want: "h2 http2"},
		{name: "D60", pod: []func(*corev1.Pod){opaquePorts("8989")}, want: "opaque via:4143" + podTLS},
		{name: "D61 empty annotation", pod: []func(*corev1.Pod){opaquePorts("")}, port: 3306, want: "h2" + podTLS},
		{name: "D61 default", port: 3306, want: "opaque via:4143" + podTLS},
		{name: "D62 name", pod: []func(*corev1.Pod){opaquePorts("http,sidecar"), namedPorts}, want: "opaque via:4143" + podTLS},
		{name: "D62 name in an init container", pod: []func(*corev1.Pod){opaquePorts("http,sidecar"), namedPorts}, port: 8990, want: "opaque via:4143" + podTLS},
		{name: "D 3.6 an empty item names no port", pod: []func(*corev1.Pod){opaquePorts("1,,2"), func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "" }}, want: "h2" + podTLS},
		{name: "D 3.6 an empty item names no port of a workload", objects: []string{strings.Replace(workloadYAML("vm", "10.0.0.12", ", annotations: {config.linkerd.io/opaque-ports: '1,,2'}"), "{name: http, port", "{port", 1), vmSlice}, want: "h2 uri:spiffe://root/vm sni:vm.local"},
		{name: "D 3.6 of two ports with one name the last", pod: []func(*corev1.Pod){opaquePorts("http"), bothNamed}, want: "opaque via:4143" + podTLS},
		{name: "D 3.6 of two ports with one name not the first", pod: []func(*corev1.Pod){opaquePorts("http"), bothNamed}, port: 8990, want: "h2" + podTLS},
		{name: "B29 spaces and ranges", pod: []func(*corev1.Pod){opaquePorts("121, 8000-8999, x")}, want: "opaque via:4143" + podTLS},
		{name: "D63", edit: header, want: "h2 via:4143" + podTLS},
		{name: "D64, B73 admin", edit: header, port: 4191, want: "h2" + podTLS},
		{name: "D64, B73 control", edit: header, port: 4190, want: "h2" + podTLS},
		{name: "D65", edit: header, pod: []func(*corev1.Pod){opaquePorts("4191")}, port: 4191, want: "opaque" + podTLS},
		{name: "D66", edit: edits(header, params), pod: []func(*corev1.Pod){annotated(linkerd.SkipInboundPortsAnnotation, "8000-9000"), opaquePorts("8989")}, labels: podLabels1},
		{name: "D 1.12 no trust domain", edit: func(c *Config) { c.TrustDomain = "" }, want: "h2"},
		{name: "D67", edit: noUpgrade, want: "hint" + podTLS},
		{name: "D67 transport header", edit: edits(noUpgrade, header), want: "hint via:4143" + podTLS},
		{name: "D68 Pod", edit: params, want: "h2 http2" + podTLS},
		{name: "D69", pod: []func(*corev1.Pod){withoutProxy}, none: true},
		{name: "D 1.12 no control address", pod: []func(*corev1.Pod){proxyEnv(linkerd.ProxyControlAddrEnv, "")}, none: true},
		{name: "D 1.12 inbound address is needed for opaque ports only", pod: []func(*corev1.Pod){proxyEnv(linkerd.ProxyInboundAddrEnv, "x")}, want: "h2" + podTLS},
		{name: "D 1.12 inbound address is needed", edit: header, pod: []func(*corev1.Pod){proxyEnv(linkerd.ProxyInboundAddrEnv, "x")}, none: true},
		{name: "D70", pod: []func(*corev1.Pod){nativeSidecar, opaquePorts("8989")}, want: "opaque via:4143" + podTLS},
		{name: "D71", edit: params, objects: []string{gateway("gid")}, want: "h2 http2 dns:gid authority:a.b.svc.c:8989", labels: "zone_locality=unknown",
			setLabels: "namespace=ns service=name1 target_cluster=east target_service=a target_service_namespace=b"},
		{name: "D 1.13 two parts of a name suffice", objects: []string{strings.Replace(gateway("gid"), "a.b.svc.c", "a.b", 1)}, want: "h2 dns:gid authority:a.b:8989",
			setLabels: "namespace=ns service=name1 target_cluster=east target_service=a target_service_namespace=b"},
		{name: "D 1.13 no cluster, no target", objects: []string{strings.Replace(gateway("gid"), "mirror.linkerd.io/cluster-name", "example.org/cluster-name", 1)}, want: "h2 dns:gid authority:a.b.svc.c:8989",
			setLabels: "namespace=ns service=name1"},
		{name: "D71 no upgrade", edit: noUpgrade, objects: []string{gateway("gid")}, want: "dns:gid authority:a.b.svc.c:8989"},
		{name: "D72", edit: params, objects: []string{gateway("")}, want: "authority:a.b.svc.c:8989", labels: "zone_locality=unknown"},
		{name: "D74", edit: edits(params, noUpgrade), objects: []string{workloadYAML("vm", "10.0.0.12", group), vmSlice}, want: "h2 http2 uri:spiffe://root/vm sni:vm.local",
			labels: "external_workload=vm workloadgroup=wg zone=z zone_locality=unknown"},
		{name: "D 1.9 ExternalWorkload of two owners", objects: []string{workloadYAML("vm", "10.0.0.12", ", ownerReferences: [{kind: WorkloadGroup, name: wg}, {kind: WorkloadGroup, name: other}]"), vmSlice},
			want: "h2 uri:spiffe://root/vm sni:vm.local", labels: "external_workload=vm zone=z zone_locality=unknown"},
		{name: "D 3.5 Server for another port of the workload", port: 1111, objects: []string{vmProxy, strings.Replace(vmSlice, "port: 8989", "port: 1111", 1), vmServer}, want: "h2 uri:spiffe://root/vm sni:vm.local"},
		{name: "D75 proxy port", objects: []string{vmProxy, vmSlice, vmServer}, want: "opaque via:1111 uri:spiffe://root/vm sni:vm.local"},
		{name: "D75", objects: []string{workloadYAML("vm", "10.0.0.12", ""), vmSlice, vmServer}, want: "opaque via:4143 uri:spiffe://root/vm sni:vm.local"},
		{name: "D75 annotation", edit: header, objects: []string{workloadYAML("vm", "10.0.0.12", ", annotations: {config.linkerd.io/opaque-ports: http}"), vmSlice}, want: "opaque via:4143 uri:spiffe://root/vm sni:vm.local"},
		{name: "D76", objects: []string{serverYAML("s", "{matchLabels: {app: web}}", "8989", "opaque")}, want: "opaque via:4143" + podTLS},
		{name: "D76 port name in an init container", pod: []func(*corev1.Pod){namedPorts}, port: 8990, objects: []string{serverYAML("s", "{}", "sidecar", "opaque")}, want: "opaque via:4143" + podTLS},
		{name: "D76 port name of another port", pod: []func(*corev1.Pod){namedPorts}, objects: []string{serverYAML("s", "{}", "sidecar", "opaque")}, want: "h2" + podTLS},
		{name: "D 3.5 a Server does not lift a default", port: 3306, objects: []string{serverYAML("s", "{}", "3306", "HTTP/2")}, want: "opaque via:4143" + podTLS},
		{name: "B10 no targetRef, no identity", edit: edits(header, params), objects: []string{sliceYAML("a", 8989, "10.0.0.12")}, labels: "zone_locality=unknown"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			config := testConfig()
			if test.edit != nil {
				test.edit(&config)
			}
			if test.port == 0 {
				test.port = 8989
			}
			bubble(t, config, func(t *testing.T, c *cluster) {
				c.apply(web[0], podYAML("name1-1", "10.0.0.12", test.pod...), sliceYAML("a", test.port, "10.0.0.12 name1-1"))
				c.apply(test.objects...)
				s := c.get(name1, test.token)
				taken := s.Take()
				if len(taken) != 1 {
					t.Fatalf("want one Add, got %v", taken)
				}
				add := taken[0].GetAdd()
				if test.setLabels == "" && test.objects == nil {
					test.setLabels = "namespace=ns service=name1"
				}
				if got := labelText(add.GetMetricLabels()); test.setLabels != "" && got != test.setLabels {
					t.Errorf("set labels %q, want %q", got, test.setLabels)
				}
				if test.none {
					if len(add.Addrs) != 0 {
						t.Errorf("want an Add without addresses, got %v", add)
					}
					return
				}
				if got := describe(add.Addrs[0]); got != strings.TrimSpace(test.want) {
					t.Errorf("address\n  %s, want\n  %s", got, test.want)
				}
				if got := labelText(add.Addrs[0].MetricLabels); test.labels != "" && got != test.labels {
					t.Errorf("labels\n  %s, want\n  %s", got, test.labels)
				}
			})
		})
	}
}

// An address that cannot be told any more is taken back.
func TestGetProxyComesAndGoes(t *testing.T) {
	rulebook.Covers(t, "D69")
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.base()
		s := c.get(name1)
		s.want("A 10.0.0.12:8989")
		c.apply(podYAML("name1-1", "10.0.0.12", withoutProxy))
		s.want("R 10.0.0.12:8989")
		c.apply(podYAML("name1-1", "10.0.0.12"))
		s.want("A 10.0.0.12:8989")
	})
}

// The gateway's identity is part of an endpoint.
func TestGetGatewayIdentityChanges(t *testing.T) {
	rulebook.Covers(t, "D73")
	slice := func(identity string) string {
		return "kind: EndpointSlice\nmetadata: {namespace: ns, name: a, labels: {kubernetes.io/service-name: name1}, annotations: {mirror.linkerd.io/remote-gateway-identity: " + identity + "}}\n" +
			"addressType: IPv4\nports: [{name: '', port: 9999}]\nendpoints: [{addresses: [10.0.0.12]}]\n"
	}
	bubble(t, testConfig(), func(t *testing.T, c *cluster) {
		c.apply(web[0], slice("one"))
		s := c.get(name1)
		if got := describe(s.one()); got != "h2 dns:one" {
			t.Error(got)
		}
		c.apply(slice("two"))
		if got := describe(s.one()); got != "h2 dns:two" {
			t.Error(got)
		}
	})
}

// The parameters of HTTP/2 are sent to meshed Pods, in this shape.
func TestHTTP2Params(t *testing.T) {
	rulebook.Covers(t, "D68")
	config := testConfig()
	params(&config)
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.base()
		want := &pb.Http2ClientParams{KeepAlive: &pb.Http2ClientParams_KeepAlive{
			Interval: &durationpb.Duration{Seconds: 10}, Timeout: &durationpb.Duration{Seconds: 3}, WhileIdle: true}}
		if diff := cmp.Diff(want, c.get(name1).one().Http2, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	})
}

// Configurations that cannot work.
func TestConfigErrors(t *testing.T) {
	rulebook.Covers(t, "D148")
	for name, edit := range map[string]func(*Config){
		"D148 IPv6 without slices": func(c *Config) { c.EnableEndpointSlices = false },
		"D 4.3 HTTP/2 parameters":  func(c *Config) { c.MeshedHTTP2ClientParams = "{" },
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig()
			edit(&config)
			if _, err := New(config); err == nil {
				t.Error("no error")
			}
		})
	}
}

// The gateway of a mirrored Service by Endpoints: neither zone nor hints, and
// the same overrides as by slices (D 1.8, D 1.13).
func TestGetGatewayInEndpointsMode(t *testing.T) {
	config := testConfig()
	config.EnableEndpointSlices, config.EnableIPv6 = false, false
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.apply(web[0], podYAML("name1-1", "10.0.0.12"),
			"kind: Endpoints\nmetadata:\n  namespace: ns\n  name: name1\n  labels: {mirror.linkerd.io/cluster-name: east}\n"+
				"  annotations: {mirror.linkerd.io/remote-gateway-identity: gid, mirror.linkerd.io/remote-svc-fq-name: a.b.svc.c}\n"+
				"subsets: [{addresses: [{ip: 192.0.2.1}, {ip: 10.0.0.12, targetRef: {kind: Pod, namespace: ns, name: name1-1}}], ports: [{port: 9999}]}]\n")
		taken := c.get(name1).Take()
		if len(taken) != 1 {
			t.Fatalf("want one Add, got %v", taken)
		}
		add := taken[0].GetAdd()
		if got, want := labelText(add.MetricLabels), "namespace=ns service=name1 target_cluster=east target_service=a target_service_namespace=b"; got != want {
			t.Errorf("set labels %q, want %q", got, want)
		}
		want := map[string]string{
			"192.0.2.1:9999": "h2 dns:gid authority:a.b.svc.c:8989 | zone_locality=unknown",
			"10.0.0.12:9999": "h2" + podTLS + " | control_plane_ns=linkerd pod=name1-1 serviceaccount=default zone= zone_locality=unknown",
		}
		got := map[string]string{}
		for _, w := range add.Addrs {
			got[addrText(w.Addr)] = describe(w) + " | " + labelText(w.MetricLabels)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}

// What was written as protobuf may be no text; a message with it would be read by no client.
func TestSetLabelsAreText(t *testing.T) {
	rulebook.Covers(t, "F11")
	labels := labelsOf("web", &metav1.ObjectMeta{
		Namespace: "ns", Labels: map[string]string{linkerd.MirrorClusterLabel: "east\xff"},
		Annotations: map[string]string{linkerd.RemoteServiceFQNAnnotation: "web\xff.shop\xfe.svc.cluster.local"},
	})
	var set pb.WeightedAddrSet
	if err := proto.Unmarshal(appendSetLabels(nil, &labels), &set); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"namespace": "ns", "service": "web", "target_cluster": "east�", "target_service": "web�", "target_service_namespace": "shop�"}
	if diff := cmp.Diff(want, set.MetricLabels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
