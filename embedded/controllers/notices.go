package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// notServed are the kinds of which a cluster makes something that nobody makes
// here, since their controller does not run: docs/controllers.md. Each is told
// of once, however many objects there are.
var notServed = []struct {
	of      schema.GroupVersionResource
	kind    schema.GroupVersionKind
	message string
}{{
	of:      corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
	kind:    corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	message: "claims stay Pending, as there is no storage for them; pods that use one run all the same, without their volume",
}}

// noticesSource is who says so in the table of problems.
const noticesSource = "controllers"

// notice tells of kinds in use that nobody serves, for as long as they are.
func (m *Manager) notice(t *tools) error {
	for _, kind := range notServed {
		informer, err := t.factory.ForResource(kind.of)
		if err != nil {
			return err
		}
		store := informer.Informer().GetStore()
		look := func(any) {
			var found []problems.Problem
			if len(store.ListKeys()) > 0 {
				found = []problems.Problem{{
					Object:   problems.Object{Group: kind.kind.Group, Version: kind.kind.Version, Kind: kind.kind.Kind},
					Message:  kind.message,
					Severity: problems.Warning,
				}}
			}
			m.config.Problems.Say(noticesSource, kind.of.Resource, found...)
		}
		if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, DeleteFunc: look}); err != nil {
			return err
		}
	}
	return nil
}
