package inbound

import (
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deriver derives what policy needs from the cluster's objects. It holds what
// that depends on besides the objects. Immutable.
type deriver struct {
	*messages
	log  *slog.Logger
	mesh mesh
}

// unusable says why a version of an object cannot be used, and returns what
// stays in force instead: the form of the last version that could, unless that
// was of another object with the same name.
func unusable[D interface {
	metav1.Object
	comparable
}](d *deriver, kind string, source metav1.Object, err error, previous D) D {
	var none D
	kept := previous != none && previous.GetUID() == source.GetUID()
	d.log.Warn("object cannot be used for inbound policy", "kind", kind,
		"object", source.GetNamespace()+"/"+source.GetName(), "error", err, "last_version_stays", kept)
	if !kept {
		return none
	}
	return previous
}
