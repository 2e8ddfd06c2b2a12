package destination

import (
	corev1 "k8s.io/api/core/v1"

	workloadv1beta1 "github.com/linkerd-lite/linkerd-lite/internal/apis/workload/v1beta1"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// report takes what is found wrong with an object on the way to an answer; see
// view.Reader.Report.
type report func(...problems.Problem)

// annotation says that part of an annotation's value is ignored.
func (r report) annotation(object problems.Object, name string, err error) {
	r(problems.Problem{
		Object: object, Field: problems.Annotation(name).String(),
		Message: err.Error(), Instead: "the rest of the annotation counts",
	})
}

func (r report) podAnnotation(pod *corev1.Pod, name string, err error) {
	r.annotation(podObject(pod), name, err)
}

func podObject(pod *corev1.Pod) problems.Object {
	return problems.ObjectOf(state.Pods.GVK, pod.Namespace, pod.Name)
}

func workloadObject(w *workloadv1beta1.ExternalWorkload) problems.Object {
	return problems.ObjectOf(state.ExternalWorkloads.GVK, w.Namespace, w.Name)
}

func serviceObject(namespace, name string) problems.Object {
	return problems.ObjectOf(state.Services.GVK, namespace, name)
}
