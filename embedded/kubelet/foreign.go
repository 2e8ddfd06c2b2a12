package kubelet

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is the name under which the kubelet writes.
const FieldManager = "linkerd-lite-kubelet"

// foreignStatus returns those entries of managed that show another writer than
// this kubelet in the object's status, without their fields. Conditions of the
// types in usual do not count: other controllers add them as a matter of
// course.
func foreignStatus(managed []metav1.ManagedFieldsEntry, usual []string) []metav1.ManagedFieldsEntry {
	var foreign []metav1.ManagedFieldsEntry
	for _, entry := range managed {
		trimmed := entry.FieldsType == "" && entry.FieldsV1 == nil
		if trimmed {
			foreign = append(foreign, entry) // an informer may transform an object twice
			continue
		}
		if entry.Manager == FieldManager || entry.FieldsV1 == nil || !ownsStatus(entry.FieldsV1.GetRawBytes(), usual) {
			continue
		}
		entry.FieldsType, entry.FieldsV1 = "", nil
		foreign = append(foreign, entry)
	}
	return foreign
}

// ownsStatus reports whether a set of fields in the FieldsV1 format holds
// anything below status but conditions of the usual types.
func ownsStatus(fields []byte, usual []string) bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(fields, &top) != nil {
		return false
	}
	status, ok := top["f:status"]
	if !ok {
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(status, &members) != nil {
		return true
	}
	for name, value := range members {
		switch name {
		case ".":
		case "f:conditions":
			if ownsConditions(value, usual) {
				return true
			}
		default:
			return true
		}
	}
	// Owning the bare struct, as an apply of an empty status does, owns nothing.
	return false
}

// ownsConditions looks at the keys of a list map, such as k:{"type":"Ready"}.
func ownsConditions(fields []byte, usual []string) bool {
	var items map[string]json.RawMessage
	if json.Unmarshal(fields, &items) != nil {
		return true
	}
	for key := range items {
		if key == "." {
			continue
		}
		var condition struct {
			Type string `json:"type"`
		}
		if len(key) < 2 || json.Unmarshal([]byte(key[2:]), &condition) != nil || !slices.Contains(usual, condition.Type) {
			return true
		}
	}
	return false
}

// trim is the transform of the kubelet's informers where all pods stand in. Beside
// trimOwners it drops those parts of a pod's spec that are never read then: an
// update of the status subresource keeps the spec that is stored.
func trim(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec.Volumes = nil
		pod.Spec.SecurityContext = nil
		for i := range pod.Spec.Containers {
			trimContainer(&pod.Spec.Containers[i])
		}
		for i := range pod.Spec.InitContainers {
			trimContainer(&pod.Spec.InitContainers[i])
		}
	}
	return trimOwners(object)
}

// trimOwners replaces the managed fields by foreignStatus, so that afterwards an
// object has any exactly if its status is foreign.
func trimOwners(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		usual := []string{string(corev1.DisruptionTarget)}
		for _, gate := range o.Spec.ReadinessGates {
			usual = append(usual, string(gate.ConditionType))
		}
		o.ManagedFields = foreignStatus(o.ManagedFields, usual)
	case *corev1.Node:
		o.ManagedFields = foreignStatus(o.ManagedFields, nil)
	}
	return object, nil
}

func trimContainer(c *corev1.Container) {
	*c = corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
}

// isForeign reports whether the status of a trimmed object is somebody else's.
func isForeign(object metav1.Object) bool {
	return len(object.GetManagedFields()) > 0 || object.GetAnnotations()[StatusAnnotation] == StatusManual
}
