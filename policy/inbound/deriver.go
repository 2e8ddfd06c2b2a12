package inbound

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// deriver derives what policy needs from the cluster's objects, and says what
// is wrong with them. It holds what that depends on besides the objects. Immutable.
type deriver struct {
	*messages
	mesh mesh
}

// unusable says why a version of an object cannot be used, and returns what
// stays in force instead: the form of the last version that could, unless that
// was of another object with the same name.
func unusable[D interface {
	metav1.Object
	comparable
}](source metav1.Object, err error, previous D) (D, []problems.Problem) {
	var none D
	kept := previous != none && previous.GetUID() == source.GetUID()
	if !kept {
		previous = none
	}
	return previous, []problems.Problem{problems.Unusable("cannot be used for inbound policy", err, kept)}
}
