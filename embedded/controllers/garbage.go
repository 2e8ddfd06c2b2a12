package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	// kindsPeriod is the time between two looks for kinds that appeared.
	kindsPeriod = 10 * time.Second
	// syncTimeout is how long the collector waits for all kinds at its start.
	syncTimeout = 30 * time.Second
)

// notCollected are kinds that have no owners in practice, besides events: each
// kind that is collected costs a watch.
var notCollected = []schema.GroupResource{
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "apiregistration.k8s.io", Resource: "apiservices"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
	{Group: "coordination.k8s.io", Resource: "leases"},
	{Group: "networking.k8s.io", Resource: "ingressclasses"},
	{Group: "networking.k8s.io", Resource: "ipaddresses"},
	{Group: "networking.k8s.io", Resource: "servicecidrs"},
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"},
	{Group: "storage.k8s.io", Resource: "csidrivers"},
	{Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"},
	{Group: "storage.k8s.io", Resource: "storageclasses"},
	{Group: "storage.k8s.io", Resource: "volumeattachments"},
	{Group: "storage.k8s.io", Resource: "volumeattributesclasses"},
	{Group: "", Resource: "nodes"},
	{Group: "", Resource: "persistentvolumes"},
}

func newGarbageCollector(ctx context.Context, t *tools) (func(context.Context), error) {
	ignored := map[schema.GroupResource]struct{}{}
	for resource := range garbagecollector.DefaultIgnoredResources() {
		ignored[resource] = struct{}{}
	}
	for _, resource := range notCollected {
		ignored[resource] = struct{}{}
	}
	c, err := garbagecollector.NewGarbageCollector(ctx, t.client, t.metadata, t.mapper, ignored, informerfactory.NewInformerFactory(t.factory, t.metaKinds), t.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { c.Sync(ctx, t.client.Discovery(), kindsPeriod) })
		c.Run(ctx, workers, syncTimeout)
	}, nil
}
