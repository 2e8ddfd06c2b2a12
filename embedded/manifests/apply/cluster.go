package apply

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// FieldManager is the name under which manifests are applied.
const FieldManager = "linkerd-lite-manifests"

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Cluster is an API server.
type Cluster struct {
	client metadata.Interface
	// objects has whole objects, for what cannot be applied as it is written.
	objects dynamic.Interface
	Kinds   *Kinds
	owners  map[schema.GroupKind]string
	workers int
	now     func() time.Time
	log     *slog.Logger
	// dryRun sends everything, and changes nothing.
	dryRun bool
}

// Config is what a Cluster needs.
type Config struct {
	// REST leads to the API server. Its QPS should be -1.
	REST *rest.Config
	// StatusOwners names, by kind, the part that writes the status, which a manifest
	// then may not.
	StatusOwners map[schema.GroupKind]string
	// Workers is the number of requests at a time.
	Workers int
	Now     func() time.Time
	Log     *slog.Logger
}

// New makes a Cluster; it sends nothing.
func New(cfg Config) (*Cluster, error) {
	config := rest.CopyConfig(cfg.REST)
	config.WarningHandler = nil
	config.WarningHandlerWithContext = warningHandler{}
	if config.Timeout == 0 {
		config.Timeout = 40 * time.Second // a webhook may take 30
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("manifests: client for the API server: %w", err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("manifests: client for the API server: %w", err)
	}
	discover, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("manifests: client for the API server: %w", err)
	}
	return &Cluster{
		client: client, objects: objects, Kinds: newKinds(discover, cfg.Now),
		owners: cfg.StatusOwners, workers: cfg.Workers, now: cfg.Now, log: cfg.Log,
	}, nil
}

// Dry is the same cluster for trials: all that is sent changes nothing.
func (c *Cluster) Dry() *Cluster {
	dry := *c
	dry.dryRun = true
	return &dry
}

// ID waits for the kube-system namespace, which the API server makes
// soon after its start: its UID tells clusters apart.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	var id string
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ns, err := c.client.Resource(namespaces).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			c.log.Debug("wait for namespace", "namespace", metav1.NamespaceSystem, "error", err)
			return false, nil
		}
		id = string(ns.UID)
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("wait for namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return id, nil
}

// NamespaceExists reports whether there is a namespace that is not being deleted.
func (c *Cluster) NamespaceExists(ctx context.Context, name string) (bool, error) {
	ns, err := c.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for namespace %s: %w", name, err)
	}
	return ns.DeletionTimestamp == nil, nil
}

// NamespaceLabels are those of a namespace; empty if they cannot be had.
func (c *Cluster) NamespaceLabels(ctx context.Context, name string) map[string]string {
	labels := map[string]string{}
	if ns, err := c.client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{}); err == nil {
		maps.Copy(labels, ns.Labels)
	}
	return labels
}
