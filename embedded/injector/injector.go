package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
)

// Names that only the injector needs.
const (
	createdByAnnotation       = "linkerd.io/created-by"
	proxyVersionAnnotation    = "linkerd.io/proxy-version"
	trustRootAnnotation       = "linkerd.io/trust-root-sha256"
	initContainerName         = "linkerd-init"
	injectEnabled             = "enabled"
	injectDisabled            = "disabled"
	injectIngress             = "ingress"
	configAnnotationPrefix    = "config.linkerd.io/"
	configBetaPrefix          = "config.beta.linkerd.io/"
	configAlphaPrefix         = "config.alpha.linkerd.io/"
	nativeSidecarSuffix       = "proxy-enable-native-sidecar"
	additionalEnvAnnotation   = "config.linkerd.io/proxy-additional-env"
	proxyAwaitAnnotation      = "config.linkerd.io/proxy-await"
	podInboundPortsAnnotation = "config.linkerd.io/pod-inbound-ports"
)

// Injector answers admission requests. Immutable, so safe for concurrent use.
type Injector struct {
	config Config
	lookup Lookup
	hook   webhook.Hook
}

// New returns an injector that finds namespaces and owners through lookup.
func New(config Config, lookup Lookup) *Injector {
	return &Injector{config: config.withDefaults(), lookup: lookup, hook: Hook()}
}

// Review answers a request for the creation of a Pod or a Service; anything
// else is allowed unchanged.
func (i *Injector) Review(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if request.Operation != admissionv1.Create || request.SubResource != "" || request.Kind.Group != "" {
		return response
	}
	var p patch
	var err error
	switch request.Kind.Kind {
	case "Pod":
		p, response.Warnings, err = i.reviewPod(ctx, request)
	case "Service":
		p, err = i.reviewService(ctx, request)
	default:
		return response
	}
	if err == nil && len(p) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType = &kind
		response.Patch, err = p.encode()
	}
	if err != nil {
		return &admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "proxy injection: " + err.Error(),
		}}
	}
	return response
}

func (i *Injector) reviewService(ctx context.Context, request *admissionv1.AdmissionRequest) (patch, error) {
	var service corev1.Service
	if err := json.Unmarshal(request.Object.Raw, &service); err != nil {
		return nil, fmt.Errorf("read Service: %w", err)
	}
	if _, probe := service.Annotations[probeAnnotation]; probe {
		var p patch
		p.addAll("/metadata/annotations", true, []string{probeAnnotation}, map[string]string{probeAnnotation: probeSeen})
		return p, nil
	}
	namespace, err := i.lookup.Namespace(ctx, request.Namespace)
	if err != nil {
		return nil, err
	}
	if i.exempt(request.Namespace, namespace, service.Labels) {
		return nil, nil
	}
	return inheritOpaquePorts(service.ObjectMeta, namespace), nil
}

func (i *Injector) reviewPod(ctx context.Context, request *admissionv1.AdmissionRequest) (patch, []string, error) {
	var pod corev1.Pod
	if err := quantity.CheckJSON(request.Object.Raw, reflect.TypeFor[corev1.Pod]()); err != nil {
		return nil, nil, fmt.Errorf("read Pod: %w", err)
	}
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		return nil, nil, fmt.Errorf("read Pod: %w", err)
	}
	pod.Namespace = request.Namespace // not yet in the object of every client
	namespace, err := i.lookup.Namespace(ctx, request.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if i.exempt(request.Namespace, namespace, pod.Labels) {
		return nil, nil, nil
	}
	mode := i.mode(pod.ObjectMeta, namespace)
	if mode == "" {
		return inheritOpaquePorts(pod.ObjectMeta, namespace), nil, nil
	}
	if obstacle := obstacle(&pod); obstacle != "" {
		return inheritOpaquePorts(pod.ObjectMeta, namespace), []string{"linkerd-proxy not injected: " + obstacle}, nil
	}
	kind, name, err := i.owner(ctx, &pod)
	if err != nil {
		return nil, nil, err
	}
	p, warnings := i.inject(&pod, namespace, mode, kind, name)
	return p, warnings, nil
}

// exempt reports whether the chart's webhook would not be asked at all.
func (i *Injector) exempt(name string, namespace metav1.ObjectMeta, object map[string]string) bool {
	all := labels.Set{corev1.LabelMetadataName: name}
	maps.Copy(all, namespace.Labels)
	return !i.hook.Selects(object, all)
}

// mode returns enabled or ingress, or nothing for pods that are left alone.
func (i *Injector) mode(pod, namespace metav1.ObjectMeta) string {
	value, ok := pod.Annotations[linkerd.InjectAnnotation]
	if !ok {
		value, ok = namespace.Annotations[linkerd.InjectAnnotation]
	}
	if !ok && i.config.Default {
		value = injectEnabled
	}
	if value == injectEnabled || value == injectIngress {
		return value
	}
	return ""
}

// obstacle says why a pod that asks for a proxy cannot have one.
func obstacle(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return "the pod uses the host network"
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if container.Name == linkerd.ProxyContainerName || container.Name == initContainerName {
			return "the pod has a container named " + container.Name
		}
	}
	return ""
}

func inheritOpaquePorts(object, namespace metav1.ObjectMeta) patch {
	var p patch
	ports, inherited := namespace.Annotations[linkerd.OpaquePortsAnnotation]
	if _, own := object.Annotations[linkerd.OpaquePortsAnnotation]; inherited && !own {
		p.addAll("/metadata/annotations", object.Annotations != nil, []string{linkerd.OpaquePortsAnnotation},
			map[string]string{linkerd.OpaquePortsAnnotation: ports})
	}
	return p
}

// ownerKinds are the kinds that have a label linkerd.io/proxy-KIND.
var ownerKinds = []string{"deployment", "replicationcontroller", "replicaset", "job", "daemonset", "statefulset", "cronjob"}

// owner finds the workload that a pod belongs to, by the rules that metric
// labels follow (D 1.9).
func (i *Injector) owner(ctx context.Context, pod *corev1.Pod) (kind, name string, err error) {
	if len(pod.OwnerReferences) != 1 {
		return "", "", nil
	}
	ref := pod.OwnerReferences[0]
	if ref.Kind == "ReplicaSet" || ref.Kind == "Job" {
		owners, err := i.lookup.Owners(ctx, pod.Namespace, ref)
		if err != nil {
			return "", "", err
		}
		if len(owners) == 1 && (ref.Kind == "Job" || slices.Contains([]string{"job", "statefulset", "daemonset", "deployment"}, strings.ToLower(owners[0].Kind))) {
			ref = owners[0]
		}
	}
	return strings.ToLower(ref.Kind), ref.Name, nil
}

// inject is the patch that makes pod one with a proxy.
func (i *Injector) inject(pod *corev1.Pod, namespace metav1.ObjectMeta, mode, ownerKind, ownerName string) (patch, []string) {
	settings := newSettings(i.config, pod, namespace, mode)
	container := settings.container()

	labels := map[string]string{
		linkerd.ControlPlaneNSLabel: i.config.ControlPlaneNamespace,
		linkerd.WorkloadNSLabel:     pod.Namespace,
	}
	if slices.Contains(ownerKinds, ownerKind) {
		if problems := validation.IsValidLabelValue(ownerName); len(problems) > 0 {
			settings.warn("no label %s%s: %s", linkerd.ProxyOwnerLabelPrefix, ownerKind, problems[0])
		} else {
			labels[linkerd.ProxyOwnerLabelPrefix+ownerKind] = ownerName
		}
	}
	annotations := map[string]string{
		linkerd.InjectAnnotation: mode,
		createdByAnnotation:      i.config.CreatedBy,
		proxyVersionAnnotation:   settings.version(),
	}
	if hash := i.config.trustRootHash(); hash != "" {
		annotations[trustRootAnnotation] = hash
	}
	for key, value := range namespace.Annotations {
		if _, own := pod.Annotations[key]; !own && isConfig(key) {
			annotations[key] = value
		}
	}
	var p patch
	p.addAll("/metadata/labels", pod.Labels != nil, slices.Sorted(maps.Keys(labels)), labels)
	p.addAll("/metadata/annotations", pod.Annotations != nil, slices.Sorted(maps.Keys(annotations)), annotations)
	if settings.native {
		// First, so that the other init containers have a network.
		p.insert("/spec/initContainers", len(pod.Spec.InitContainers) > 0, true, container)
	} else {
		// First if the application is to wait for it.
		p.insert("/spec/containers", len(pod.Spec.Containers) > 0, settings.switched(proxyAwaitAnnotation, true), container)
	}
	return p, settings.warnings
}

// isConfig reports whether a namespace hands an annotation on to its pods.
func isConfig(key string) bool {
	return strings.HasPrefix(key, configAnnotationPrefix) || strings.HasPrefix(key, configBetaPrefix) || strings.HasPrefix(key, configAlphaPrefix)
}
