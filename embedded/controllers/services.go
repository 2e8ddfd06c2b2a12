package controllers

import (
	"context"

	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

const (
	// sliceSize is the usual number of endpoints in an EndpointSlice.
	sliceSize = 100
	// mirrorSize is the usual number of addresses that are mirrored of a subset.
	mirrorSize = 1000
)

func newEndpointSlices(ctx context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), t.factory.Discovery().V1().EndpointSlices(), sliceSize, t.client, endpointBatch)
	return withWorkers(c.Run), nil
}

func newEndpointSliceMirroring(ctx context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c := endpointslicemirroring.NewController(ctx, core.Endpoints(), t.factory.Discovery().V1().EndpointSlices(), core.Services(), mirrorSize, t.client, endpointBatch)
	return withWorkers(c.Run), nil
}

// newEndpoints writes the Endpoints of Services, for clients that do not read EndpointSlices yet.
func newEndpoints(ctx context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), t.client, endpointBatch)
	return withWorkers(c.Run), nil
}
