package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

// The waves of an apply. All steps of one go at once. Only what others need at
// admission has to come first.
const (
	// judges are policies and webhooks: what they refuse is refused at the first start
	// as at any later save.
	judges = iota
	// ground is what others are made of or lie in: kinds, namespaces, classes.
	ground
	// needed is what Pods, and checks of routes and profiles, look for.
	needed
	workloads
	custom
	// served are those whose own server may be among the rest.
	served
)

// Wave is when the step is done: those with the lowest come first. Pruning goes the other way,
// but what judges others goes first there too, and holds nothing up.
func (s Step) Wave() int {
	if s.Action == Apply {
		return wave(s.Object, s.Manifest)
	}
	if s.Object.Group == judging {
		return judges
	}
	return served - wave(s.Object, s.Manifest) + 1
}

// Ground reports whether other objects need the step's at admission.
func (s Step) Ground() bool { return s.Wave() <= needed }

// Judges reports whether an applied step has a say in what is admitted from then on.
func (s Step) Judges() bool { return s.Wave() == judges }

const judging = "admissionregistration.k8s.io"

func wave(key source.Key, manifest *unstructured.Unstructured) int {
	switch key.Group {
	case "":
		switch key.Kind {
		case "Namespace", "Node":
			return ground
		case "Pod", "ReplicationController":
			return workloads
		}
		return needed
	case CRDKind.Group, "scheduling.k8s.io", "storage.k8s.io", "node.k8s.io":
		return ground
	case "rbac.authorization.k8s.io":
		return needed
	case judging:
		if asksService(manifest) {
			return served
		}
		return judges
	case "apiregistration.k8s.io":
		return served
	}
	if source.KindName(key.GroupKind()) == key.Kind {
		return workloads
	}
	return custom
}

// asksService reports whether a webhook is a Service, and not some URL.
func asksService(manifest *unstructured.Unstructured) bool {
	if manifest == nil {
		return false
	}
	hooks, _, _ := unstructured.NestedSlice(manifest.Object, "webhooks")
	for _, hook := range hooks {
		fields, _ := hook.(map[string]any)
		if _, has, _ := unstructured.NestedMap(fields, "clientConfig", "service"); has {
			return true
		}
	}
	return false
}
