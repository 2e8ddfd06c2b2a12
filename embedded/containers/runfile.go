package containers

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
)

// RunFile says what containers of pods run whose manifests one does not want to
// edit: by NAMESPACE/NAME, where the name is that of a workload or of a pod, the
// commands by the names of containers. The nil map is an empty file.
//
//	shop/web: {web: ./web --listen :8080}
type RunFile map[string]map[string]string

// ReadRunFile reads one.
func ReadRunFile(path string) (RunFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file RunFile
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name := range file {
		if namespace, object, ok := strings.Cut(name, "/"); !ok || namespace == "" || object == "" || strings.Contains(object, "/") {
			return nil, fmt.Errorf("%s: %q must be NAMESPACE/NAME of a workload or a pod", path, name)
		}
	}
	return file, nil
}

// command is what a container of a pod runs, or empty.
func (f RunFile) command(pod *corev1.Pod, container string) string {
	for _, name := range []string{pod.Name, workload(pod)} {
		if said := f[pod.Namespace+"/"+name][container]; said != "" {
			return said
		}
	}
	return ""
}

// workload is the name of the workload that a pod belongs to, or empty. That of a
// Deployment is before the hash in the name of its ReplicaSet, that of a CronJob
// before the time in the name of its Job.
func workload(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return ""
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return strings.TrimSuffix(owner.Name, "-"+hash)
	}
	if i := strings.LastIndex(owner.Name, "-"); owner.Kind == "Job" && i > 0 && strings.Trim(owner.Name[i+1:], "0123456789") == "" {
		return owner.Name[:i]
	}
	return owner.Name
}
