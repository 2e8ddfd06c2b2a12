package controllers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"
)

// withWorkers adapts the controllers' own Run.
func withWorkers(run func(context.Context, int)) func(context.Context) {
	return func(ctx context.Context) { run(ctx, workers) }
}

func newDeployments(ctx context.Context, t *tools) (func(context.Context), error) {
	apps, core := t.factory.Apps().V1(), t.factory.Core().V1()
	c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), t.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newReplicaSets(ctx context.Context, t *tools) (func(context.Context), error) {
	c := replicaset.NewReplicaSetController(ctx, t.factory.Apps().V1().ReplicaSets(), t.factory.Core().V1().Pods(), t.client, replicaset.BurstReplicas)
	return withWorkers(c.Run), nil
}

func newReplicationControllers(ctx context.Context, t *tools) (func(context.Context), error) {
	core := t.factory.Core().V1()
	c := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), t.client, replication.BurstReplicas)
	return withWorkers(c.Run), nil
}

func newStatefulSets(ctx context.Context, t *tools) (func(context.Context), error) {
	apps, core := t.factory.Apps().V1(), t.factory.Core().V1()
	c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), t.client)
	return withWorkers(c.Run), nil
}

func newDaemonSets(ctx context.Context, t *tools) (func(context.Context), error) {
	apps, core := t.factory.Apps().V1(), t.factory.Core().V1()
	backoff := flowcontrol.NewBackOff(time.Second, 15*time.Minute)
	c, err := daemon.NewDaemonSetsController(ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), t.client, backoff)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newJobs(ctx context.Context, t *tools) (func(context.Context), error) {
	c, err := job.NewController(ctx, t.client, t.factory.Core().V1().Pods(), t.factory.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

func newCronJobs(ctx context.Context, t *tools) (func(context.Context), error) {
	batch := t.factory.Batch().V1()
	c, err := cronjob.NewControllerV2(ctx, batch.Jobs(), batch.CronJobs(), t.client)
	if err != nil {
		return nil, err
	}
	return withWorkers(c.Run), nil
}

// newTTLAfterFinished deletes Jobs that say for how long they are kept.
func newTTLAfterFinished(ctx context.Context, t *tools) (func(context.Context), error) {
	c := ttlafterfinished.New(ctx, t.factory.Batch().V1().Jobs(), t.client)
	return withWorkers(c.Run), nil
}

func hasTTL(object any) bool {
	job, ok := object.(*batchv1.Job)
	return ok && job.Spec.TTLSecondsAfterFinished != nil
}
