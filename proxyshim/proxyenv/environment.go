package proxyenv

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

const prefix = "LINKERD2_PROXY_"

// Var is an environment variable.
type Var struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Input is what an environment depends on.
type Input struct {
	// Pod is as the API server has it: injected, with an address.
	Pod *corev1.Pod
	// Destination, Policy and Identity are HOST:PORT of the control plane.
	Destination, Policy, Identity string
	// Anchors are the trust anchors in PEM.
	Anchors string
	// Dir holds the files that WriteIdentity and WriteToken write.
	Dir string
	// Listen is the address on which the proxy takes connections. The zero value
	// means the pod's: all pods share one network here, so each needs its own.
	Listen netip.Addr
	// Outbound is HOST:PORT of the outbound listener, or two with a comma; empty
	// means the pod's own. Two proxies need two.
	Outbound string
}

// Environment is that of the pod's proxy container with references resolved,
// and what differs on this machine replaced: the listeners are on the pod's
// address, since every pod has the same network here, the control plane is
// where the instance listens, and the identity's files are in Dir.
//
// Whoever writes a manifest writes the pod's variables. Those that could do
// harm in a shell or on a terminal are left out, and leftOut says which and why.
func Environment(in Input) (vars []Var, leftOut []string, err error) {
	pod := in.Pod
	name := pod.Namespace + "/" + pod.Name
	container := proxyContainer(pod)
	if container == nil {
		return nil, nil, fmt.Errorf("pod %s has no container %s: annotate it with %s: enabled", name, linkerd.ProxyContainerName, linkerd.InjectAnnotation)
	}
	if pod.Status.PodIP == "" {
		return nil, nil, fmt.Errorf("pod %s has no address yet", name)
	}
	vars, leftOut, err = resolve(pod, container.Env)
	if err != nil {
		return nil, nil, fmt.Errorf("pod %s: %w", name, err)
	}
	get := func(name string) string {
		i := slices.IndexFunc(vars, func(v Var) bool { return v.Name == prefix+name })
		if i < 0 {
			return ""
		}
		return vars[i].Value
	}
	set := func(name, value string) {
		i := slices.IndexFunc(vars, func(v Var) bool { return v.Name == prefix+name })
		if i < 0 {
			vars = append(vars, Var{prefix + name, value})
			return
		}
		vars[i].Value = value
	}
	for variable, port := range map[string]uint16{
		"INBOUND_LISTEN_ADDR": linkerd.ProxyInboundPort, "ADMIN_LISTEN_ADDR": linkerd.ProxyAdminPort, "CONTROL_LISTEN_ADDR": linkerd.ProxyControlPort,
	} {
		host, own, err := net.SplitHostPort(cmp.Or(get(variable), fmt.Sprintf(":%d", port)))
		if err != nil {
			return nil, nil, fmt.Errorf("pod %s: %s%s: %w", name, prefix, variable, err)
		}
		set(variable, net.JoinHostPort(in.listen(host), own))
	}
	if in.Outbound != "" {
		first, _, _ := strings.Cut(in.Outbound, ",")
		set("OUTBOUND_LISTEN_ADDR", first)
		set("OUTBOUND_LISTEN_ADDRS", in.Outbound)
	}
	set("DESTINATION_SVC_ADDR", in.Destination)
	set("POLICY_SVC_ADDR", in.Policy)
	set("IDENTITY_SVC_ADDR", in.Identity)
	set("IDENTITY_TRUST_ANCHORS", in.Anchors)
	set("IDENTITY_DIR", in.Dir)
	set("IDENTITY_TOKEN_FILE", filepath.Join(in.Dir, tokenFile))
	// Nobody waits for a proxy on this machine but who just started it.
	set("IDENTITY_MIN_REFRESH", cmp.Or(get("IDENTITY_MIN_REFRESH"), "1s"))
	if get("IDENTITY_LOCAL_NAME") == "" {
		return nil, nil, fmt.Errorf("pod %s: its proxy has no %s", name, linkerd.ProxyIdentityNameEnv)
	}
	slices.SortFunc(vars, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
	return vars, leftOut, nil
}

// listen is the host in whose place a proxy listens that would listen on host.
// One that would listen on all addresses of both families is one that others
// reach by IPv6 where its pod has such an address: destination prefers it.
func (in Input) listen(host string) string {
	if in.Listen.IsValid() {
		return in.Listen.String()
	}
	if all, err := netip.ParseAddr(host); err == nil && all == netip.IPv6Unspecified() {
		for _, ip := range in.Pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil && address.Is6() {
				return ip.IP
			}
		}
	}
	return in.Pod.Status.PodIP
}

// IdentityOf is the identity of the pod's proxy.
func IdentityOf(pod *corev1.Pod) (string, error) {
	if container := proxyContainer(pod); container != nil {
		for _, v := range container.Env {
			if v.Name == linkerd.ProxyIdentityNameEnv && v.Value != "" {
				return v.Value, nil
			}
		}
	}
	return "", fmt.Errorf("pod %s/%s has no proxy with an identity: annotate it with %s: enabled", pod.Namespace, pod.Name, linkerd.InjectAnnotation)
}

// proxyContainer is the proxy among the pod's containers and native sidecars.
func proxyContainer(pod *corev1.Pod) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Name == linkerd.ProxyContainerName {
				return &containers[i]
			}
		}
	}
	return nil
}

// resolve computes values as the kubelet does; of several variables with one
// name the last counts. Variables without the proxy's prefix are there for
// others to refer to, and not in the result.
func resolve(pod *corev1.Pod, env []corev1.EnvVar) (vars []Var, leftOut []string, err error) {
	values := map[string]string{}
	for _, e := range env {
		value := ""
		if e.ValueFrom == nil {
			if value, err = expand(e.Value, values); err != nil {
				return nil, nil, fmt.Errorf("variable %q: %w", e.Name, err)
			}
		} else if e.ValueFrom.FieldRef == nil {
			return nil, nil, fmt.Errorf("variable %q takes its value from something else than the pod's fields", e.Name)
		} else if value, err = field(pod, e.ValueFrom.FieldRef.FieldPath); err != nil {
			return nil, nil, fmt.Errorf("variable %q: %w", e.Name, err)
		}
		values[e.Name] = value
		if !strings.HasPrefix(e.Name, prefix) {
			continue
		}
		v := Var{e.Name, strings.TrimSuffix(value, "\n")}
		if err := v.check(); err != nil {
			leftOut = append(leftOut, fmt.Sprintf("variable %q is left out: %v", e.Name, err))
			continue
		}
		vars = slices.DeleteFunc(vars, func(earlier Var) bool { return earlier.Name == v.Name })
		vars = append(vars, v)
	}
	return vars, leftOut, nil
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check says why a variable must not get into a shell or onto a terminal.
// Kubernetes allows any printable ASCII character but "=" in names, so that a
// name can hold a command, and any character in values.
func (v Var) check() error {
	if !identifier.MatchString(v.Name) {
		return errors.New("its name is not one that a shell can set")
	}
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if i := strings.IndexFunc(v.Value, control); i >= 0 {
		return fmt.Errorf("its value has the control character %q", v.Value[i])
	}
	return nil
}

// maxValue bounds the length of a value in bytes: Linux starts no program with
// a longer one, and ten variables that each name the one before twice would
// make a value a thousand times as long as the first.
const maxValue = 128 << 10

var reference = regexp.MustCompile(`\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`)

// expand replaces $(NAME) by the value of an earlier variable; unknown names
// stay, and $$ is a dollar sign.
func expand(text string, values map[string]string) (string, error) {
	var b strings.Builder
	end := 0
	for _, m := range reference.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[end:m[0]])
		end = m[1]
		if m[2] < 0 {
			b.WriteByte('$')
		} else if value, ok := values[text[m[2]:m[3]]]; ok {
			b.WriteString(value)
		} else {
			b.WriteString(text[m[0]:m[1]])
		}
		if b.Len() > maxValue {
			break
		}
	}
	b.WriteString(text[end:])
	if b.Len() > maxValue {
		return "", fmt.Errorf("its value is longer than %d bytes, which no program can be started with", maxValue)
	}
	return b.String(), nil
}

// field is the value of a downward API field.
func field(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return cmp.Or(pod.Spec.ServiceAccountName, "default"), nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		var ips []string
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	return "", errors.New("the pod's field " + path + " is not known here")
}
