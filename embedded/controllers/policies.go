package controllers

import (
	"context"
	"errors"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

const (
	// quotaPeriod is the time between two counts of everything.
	quotaPeriod = 5 * time.Minute
	// quotaKindsPeriod is the time between two looks for kinds that can be counted.
	quotaKindsPeriod = 30 * time.Second
)

// Those of kube-controller-manager's defaults that matter without metrics.
const (
	autoscalingPeriod    = 15 * time.Second
	autoscalingTolerance = 0.1
)

// newDisruption counts for each PodDisruptionBudget how many pods may be evicted.
func newDisruption(ctx context.Context, t *tools) (func(context.Context), error) {
	scales, err := t.scales()
	if err != nil {
		return nil, err
	}
	core, apps := t.factory.Core().V1(), t.factory.Apps().V1()
	c := disruption.NewDisruptionController(ctx, core.Pods(), t.factory.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(),
		apps.ReplicaSets(), apps.Deployments(), apps.StatefulSets(), t.client, t.mapper, scales, t.client.Discovery())
	return withWorkers(c.Run), nil
}

// newQuota counts for each ResourceQuota what its namespace uses.
func newQuota(ctx context.Context, t *tools) (func(context.Context), error) {
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(t.factory.ForResource), t.factory)
	if err != nil {
		return nil, err
	}
	discover := t.client.Discovery().ServerPreferredNamespacedResources
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               t.client.CoreV1(),
		ResourceQuotaInformer:     t.factory.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaPeriod),
		InformerFactory:           informerfactory.NewInformerFactory(t.factory, t.metaKinds),
		ReplenishmentResyncPeriod: controller.NoResyncPeriodFunc,
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          t.started,
		Registry:                  generic.NewRegistry(configuration.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { c.Sync(ctx, discover, quotaKindsPeriod) })
		c.Run(ctx, workers)
	}, nil
}

// newAutoscaling keeps workloads between the replicas that their
// HorizontalPodAutoscalers allow.
func newAutoscaling(ctx context.Context, t *tools) (func(context.Context), error) {
	scales, err := t.scales()
	if err != nil {
		return nil, err
	}
	c := podautoscaler.NewHorizontalController(ctx, t.client.CoreV1(), scales, t.client.AutoscalingV2(), t.mapper, noMetrics{},
		t.factory.Autoscaling().V2().HorizontalPodAutoscalers(), t.factory.Core().V1().Pods(),
		autoscalingPeriod, 0, autoscalingTolerance, 0, 0)
	return withWorkers(c.Run), nil
}

// noMetrics is a metrics API that has none.
type noMetrics struct{}

var _ metrics.MetricsClient = noMetrics{}

var errNoMetrics = errors.New("pods of linkerd-lite use nothing that could be measured, so only minReplicas and maxReplicas have an effect")

func (noMetrics) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errNoMetrics
}

func (noMetrics) GetRawMetric(string, string, labels.Selector, labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	return nil, time.Time{}, errNoMetrics
}

func (noMetrics) GetObjectMetric(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	return 0, time.Time{}, errNoMetrics
}

func (noMetrics) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return nil, time.Time{}, errNoMetrics
}
