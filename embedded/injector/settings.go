package injector

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
)

// settings is what holds for one pod: its annotations, those of its namespace,
// the configuration.
type settings struct {
	config    Config
	pod       *corev1.Pod
	namespace metav1.ObjectMeta
	mode      string
	// native says that the proxy is an init container that goes on running.
	native   bool
	warnings []string
}

func newSettings(config Config, pod *corev1.Pod, namespace metav1.ObjectMeta, mode string) *settings {
	s := &settings{config: config, pod: pod, namespace: namespace, mode: mode, native: !config.NoNativeSidecar}
	for _, prefix := range []string{configAlphaPrefix, configBetaPrefix, configAnnotationPrefix} {
		s.native = s.bool(prefix+nativeSidecarSuffix, s.native)
	}
	return s
}

func (s *settings) version() string {
	return s.value("config.linkerd.io/proxy-version", s.config.ProxyVersion)
}

// identity is the pod's own name in the mesh.
func (s *settings) identity() string {
	return linkerd.ServiceAccountIdentity(s.pod.Spec.ServiceAccountName, s.pod.Namespace, s.config.ControlPlaneNamespace, s.config.TrustDomain)
}

// trustRootHash is what tools compare with the trust anchors of the control plane.
func (c Config) trustRootHash() string {
	if c.TrustAnchors == "" {
		return ""
	}
	hash := sha256.Sum256([]byte(c.TrustAnchors))
	return hex.EncodeToString(hash[:])
}

// listen is an address on which the proxy takes connections from others.
func (s *settings) listen(port int32) string {
	host := "0.0.0.0"
	if s.config.EnableIPv6 {
		host = "::"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (s *settings) container() corev1.Container {
	inbound := s.port("config.linkerd.io/inbound-port", linkerd.ProxyInboundPort)
	admin := s.port("config.linkerd.io/admin-port", linkerd.ProxyAdminPort)
	container := corev1.Container{
		Name:            linkerd.ProxyContainerName,
		Image:           s.value("config.linkerd.io/proxy-image", s.config.ProxyImage) + ":" + s.version(),
		ImagePullPolicy: corev1.PullPolicy(s.value("config.linkerd.io/image-pull-policy", string(corev1.PullIfNotPresent))),
		Ports: []corev1.ContainerPort{
			{Name: "linkerd-proxy", ContainerPort: inbound, Protocol: corev1.ProtocolTCP},
			{Name: "linkerd-admin", ContainerPort: admin, Protocol: corev1.ProtocolTCP},
		},
		Env:             s.environment(inbound, admin),
		Resources:       s.resources(),
		LivenessProbe:   probe("/live", admin, 10),
		ReadinessProbe:  probe("/ready", admin, 2),
		SecurityContext: s.security(),
	}
	if s.native {
		always := corev1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
		container.StartupProbe = probe("/ready", admin, 35)
		container.StartupProbe.FailureThreshold = 20
		container.StartupProbe.PeriodSeconds = 5
	}
	return container
}

func probe(path string, port, delay int32) *corev1.Probe {
	p := &corev1.Probe{InitialDelaySeconds: delay, TimeoutSeconds: 1}
	p.HTTPGet = &corev1.HTTPGetAction{Path: path}
	p.HTTPGet.Port.IntVal = port
	return p
}

// security lets the proxy into namespaces that enforce the restricted pod
// security standard.
func (s *settings) security() *corev1.SecurityContext {
	yes, no := true, false
	context := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		ReadOnlyRootFilesystem:   &yes,
		RunAsNonRoot:             &yes,
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	uid := int64(2102)
	if value, ok := s.lookup("config.linkerd.io/proxy-uid"); ok {
		if parsed, err := strconv.ParseInt(value, 10, 64); err != nil || parsed <= 0 {
			s.warn("annotation config.linkerd.io/proxy-uid: %q is not a user id, %d is used", value, uid)
		} else {
			uid = parsed
		}
	}
	context.RunAsUser = &uid
	if value, ok := s.lookup("config.linkerd.io/proxy-gid"); ok {
		if gid, err := strconv.ParseInt(value, 10, 64); err != nil || gid < 0 {
			s.warn("annotation config.linkerd.io/proxy-gid: %q is not a group id, none is used", value)
		} else {
			context.RunAsGroup = &gid
		}
	}
	return context
}

// inboundPorts are the ports whose policy the proxy asks for at its start.
func (s *settings) inboundPorts() string {
	if list, ok := s.lookup(podInboundPortsAnnotation); ok {
		return s.ports(podInboundPortsAnnotation, list, nil)
	}
	var ports []int32
	for _, container := range slices.Concat(s.pod.Spec.InitContainers, s.pod.Spec.Containers) {
		for _, port := range container.Ports {
			// Validation, which comes later, refuses other ports.
			if port.ContainerPort > 0 && port.ContainerPort <= math.MaxUint16 && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) {
				ports = append(ports, port.ContainerPort)
			}
		}
	}
	slices.Sort(ports)
	var items []string
	for _, port := range slices.Compact(ports) {
		items = append(items, strconv.Itoa(int(port)))
	}
	return strings.Join(items, ",")
}

// additional merges the variables that annotations add, by name: those of the
// pod win over those of the namespace, and both over ours.
func (s *settings) additional(env []corev1.EnvVar) []corev1.EnvVar {
	for _, annotations := range []map[string]string{s.namespace.Annotations, s.pod.Annotations} {
		value, ok := annotations[additionalEnvAnnotation]
		if !ok {
			continue
		}
		var more []corev1.EnvVar
		if err := quantity.CheckJSON([]byte(value), reflect.TypeFor[[]corev1.EnvVar]()); err != nil {
			s.warn("annotation %s: %v", additionalEnvAnnotation, err)
			continue
		}
		if err := json.Unmarshal([]byte(value), &more); err != nil {
			s.warn("annotation %s is not a list of variables: %v", additionalEnvAnnotation, err)
			continue
		}
		for _, variable := range more {
			i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == variable.Name })
			if i < 0 {
				env = append(env, variable)
			} else {
				env[i] = variable
			}
		}
	}
	return env
}

// profileSuffixes are the names for which the proxy asks for a profile.
func (s *settings) profileSuffixes() string {
	if s.bool("config.linkerd.io/enable-external-profiles", false) {
		return "."
	}
	return "svc." + s.config.ClusterDomain + "."
}

func (s *settings) controlPlaneName(account string) string {
	return linkerd.ServiceAccountIdentity(account, s.config.ControlPlaneNamespace, s.config.ControlPlaneNamespace, s.config.TrustDomain)
}

func (s *settings) controlPlaneAddress(service string, port int) string {
	return fmt.Sprintf("%s.%s.svc.%s.:%d", service, s.config.ControlPlaneNamespace, s.config.ClusterDomain, port)
}

// opaquePorts is the effective list. Names of the containers' ports in it are
// written out, since a proxy knows none.
func (s *settings) opaquePorts() string {
	list, ok := s.lookup(linkerd.OpaquePortsAnnotation)
	if !ok {
		return s.config.DefaultOpaquePorts.String()
	}
	names := map[string]uint16{}
	for _, container := range slices.Concat(s.pod.Spec.InitContainers, s.pod.Spec.Containers) {
		for _, port := range container.Ports {
			if port.Name != "" && port.ContainerPort > 0 && port.ContainerPort <= math.MaxUint16 {
				names[port.Name] = uint16(port.ContainerPort)
			}
		}
	}
	return s.ports(linkerd.OpaquePortsAnnotation, list, func(name string) (uint16, bool) {
		port, ok := names[name]
		return port, ok
	})
}
