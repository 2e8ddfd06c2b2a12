package destination

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// owner is what a workload is accounted to in metrics.
type owner struct{ kind, name string }

// label returns the metric label that names the owner's kind (D section 1.13, D56).
func (o owner) label() string {
	if o.kind == "job" {
		return "k8s_job"
	}
	return o.kind
}

// replicaSetOwners are the kinds that stand for the pods of their ReplicaSets.
// Owners of other kinds do not (D57).
var replicaSetOwners = map[string]bool{"job": true, "statefulset": true, "daemonset": true, "deployment": true}

// podOwner resolves what a pod belongs to (D section 1.9). Its kind is in lower case.
func podOwner(r *state.Reader, pod *corev1.Pod) owner {
	if len(pod.OwnerReferences) != 1 {
		return owner{"pod", pod.Name}
	}
	direct := ownerOf(pod.OwnerReferences[0])
	switch pod.OwnerReferences[0].Kind {
	case "Job":
		if job, ok := state.Get(r, state.Jobs, pod.Namespace, direct.name); ok && len(job.OwnerReferences) == 1 {
			return ownerOf(job.OwnerReferences[0])
		}
	case "ReplicaSet":
		if rs, ok := state.Get(r, state.ReplicaSets, pod.Namespace, direct.name); ok && len(rs.OwnerReferences) == 1 {
			if above := ownerOf(rs.OwnerReferences[0]); replicaSetOwners[above.kind] {
				return above
			}
		}
	}
	return direct
}

func ownerOf(ref metav1.OwnerReference) owner { return owner{strings.ToLower(ref.Kind), ref.Name} }
