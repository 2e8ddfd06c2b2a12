package containers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

// sources read what environments and volumes refer to.
type sources struct {
	client    kubernetes.Interface
	namespace string
}

func (s sources) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	object, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return &corev1.ConfigMap{}, nil
	}
	return object, notFound("configmap", name, err)
}

func (s sources) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	object, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return &corev1.Secret{}, nil
	}
	return object, notFound("secret", name, err)
}

// notFound is err in the words of a kubelet.
func notFound(kind, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource(kind), name)
	}
	return err
}

// environment is what a container's process sees, as NAME=VALUE. An error says
// what is missing; it may come to be.
func (s sources) environment(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (map[string]string, error) {
	env := map[string]string{}
	if err := s.addServices(ctx, pod, env); err != nil {
		return nil, err
	}
	for _, from := range container.EnvFrom {
		values, err := s.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for name, value := range values {
			env[from.Prefix+name] = value
		}
	}
	// A variable refers to those before it, and to Services.
	own := map[string]string{}
	expand := expansion.MappingFuncFor(own, env)
	for _, variable := range container.Env {
		value := expansion.Expand(variable.Value, expand)
		if variable.ValueFrom != nil {
			var err error
			var there bool
			if value, there, err = s.valueFrom(ctx, pod, container, variable.ValueFrom); err != nil {
				return nil, err
			}
			if !there {
				continue
			}
		}
		own[variable.Name] = value
	}
	maps.Copy(env, own)
	return env, nil
}

// addServices adds the variables that lead to Services: to the API server, and to those of the namespace
// unless the pod wants none.
func (s sources) addServices(ctx context.Context, pod *corev1.Pod, env map[string]string) error {
	var services []*corev1.Service
	api, err := s.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil {
		services = append(services, api)
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	if pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks {
		list, err := s.client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if ip := list.Items[i].Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
				services = append(services, &list.Items[i])
			}
		}
	}
	for _, variable := range envvars.FromServices(services) {
		env[variable.Name] = variable.Value
	}
	return nil
}

func (s sources) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string]string, error) {
	if ref := from.ConfigMapRef; ref != nil {
		object, err := s.configMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return nil, err
		}
		return object.Data, nil
	}
	if ref := from.SecretRef; ref != nil {
		object, err := s.secret(ctx, ref.Name, ref.Optional)
		if err != nil {
			return nil, err
		}
		return texts(object.Data), nil
	}
	return nil, nil
}

func texts(data map[string][]byte) map[string]string {
	result := make(map[string]string, len(data))
	for key, value := range data {
		result[key] = string(value)
	}
	return result
}

func (s sources) valueFrom(ctx context.Context, pod *corev1.Pod, container *corev1.Container, from *corev1.EnvVarSource) (value string, there bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = podField(pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = resource.ExtractContainerResourceValue(from.ResourceFieldRef, container)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		object, err := s.configMap(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		value, there = object.Data[ref.Key]
		return value, there, missing(there, ref.Optional, "key %s in ConfigMap %s/%s", ref.Key, s.namespace, ref.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		object, err := s.secret(ctx, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		data, there := object.Data[ref.Key]
		return string(data), there, missing(there, ref.Optional, "key %s in Secret %s/%s", ref.Key, s.namespace, ref.Name)
	}
	return "", false, nil
}

func missing(there bool, optional *bool, format string, args ...any) error {
	if there || optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("couldn't find "+format, args...)
}

// podField is a field of the pod as the downward API names it.
func podField(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		return join(pod.Status.HostIPs, func(ip corev1.HostIP) string { return ip.IP }), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		return join(pod.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP }), nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

func join[T any](list []T, text func(T) string) string {
	var all []string
	for _, item := range list {
		all = append(all, text(item))
	}
	return strings.Join(all, ",")
}

// expand replaces $(NAME) in the arguments of a container's own command.
func expand(args []string, env map[string]string) []string {
	mapping := expansion.MappingFuncFor(env)
	var result []string
	for _, arg := range args {
		result = append(result, expansion.Expand(arg, mapping))
	}
	return result
}

// assignments are the variables as a process gets them.
func assignments(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
