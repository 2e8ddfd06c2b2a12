package manifests

import (
	"io"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/apply"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// FieldManager is the name under which manifests are applied.
const FieldManager = apply.FieldManager

// The values that users of a Syncer meet.
type (
	// Base is an object that another part keeps in the API server.
	Base = plan.Base
	// Plan is the difference between the directories and the inventory.
	Plan = plan.Plan
	// Step is one change to one object.
	Step = plan.Step
)

// CheckDirs says what is wrong with directories that are to be watched, before
// anything is started for them.
func CheckDirs(dirs []string) error { return source.CheckDirs(dirs) }

// Config is what a Syncer needs.
type Config struct {
	// Dirs are directories or single files, as the user named them.
	Dirs []string
	// RESTConfig leads to the API server. Its QPS should be -1.
	RESTConfig *rest.Config
	// StateDir holds the inventory between runs; empty: it is not stored.
	StateDir string
	// Sync flushes the inventory to disk before objects are applied.
	Sync bool
	// Exclude are paths inside Dirs that hold no manifests. StateDir is always one.
	Exclude []string
	// Base are objects that exist without Dirs. Where a manifest has one of them, it
	// is not deleted with the manifest, but restored to what Base has.
	Base []Base
	// Owned says which objects other parts keep in the API server. Nil: none.
	Owned func(kind schema.GroupKind, namespace, name string) plan.Ownership
	// StatusOwners names, by kind, the part that writes the status, which a manifest
	// then may not. Nil: DefaultStatusOwners.
	StatusOwners map[schema.GroupKind]string
	// Patterns leave out, in the syntax of .gitignore, what lies below Dirs.
	Patterns []string
	// Stdin is read once where Dirs has "-".
	Stdin io.Reader
	// PruneEmpty lets go of everything that was applied from a directory, or from a
	// kustomization, that has no objects any more. Otherwise it stays: a mount that is
	// missing and a checkout that has just begun look the same.
	PruneEmpty bool
	// Check, if not nil, says what is wrong with an object before it is applied; an
	// error keeps it from that. It may ask for the labels of the object's namespace.
	Check func(object *unstructured.Unstructured, namespaceLabels func() map[string]string) []problems.Problem
	// Out gets plans and errors in words for the user. Nil: nothing.
	Out io.Writer
	// Log is for diagnosis. Nil: nothing.
	Log *slog.Logger

	// The rest has defaults, and is here for tests.

	// workers is the number of requests at a time; pollEvery is how often
	// directories are listed where inotify has reached its limits; driftEvery is
	// how often other writers are looked for.
	workers    int
	pollEvery  time.Duration
	driftEvery time.Duration
	notify     func() (source.Notifier, error)
	now        func() time.Time
}

func (c *Config) setDefaults() {
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Check == nil {
		c.Check = func(*unstructured.Unstructured, func() map[string]string) []problems.Problem { return nil }
	}
	if c.Owned == nil {
		c.Owned = func(schema.GroupKind, string, string) plan.Ownership { return plan.Free }
	}
	if c.StatusOwners == nil {
		c.StatusOwners = DefaultStatusOwners()
	}
	if c.workers == 0 {
		c.workers = 16
	}
	if c.pollEvery == 0 {
		c.pollEvery = 500 * time.Millisecond
	}
	if c.driftEvery == 0 {
		c.driftEvery = 10 * time.Second
	}
	if c.notify == nil {
		c.notify = source.NewNotifier
	}
	if c.now == nil {
		c.now = time.Now
	}
}

// Parts that write status, as messages call them.
const (
	StatusByPolicyWriter        = "the policy status writer"
	StatusByController          = "its controller"
	StatusByNamespaceController = "the namespace controller"
)

// DefaultStatusOwners lists the kinds whose status is written by a part of
// linkerd-lite, with the part's name.
func DefaultStatusOwners() map[schema.GroupKind]string {
	owners := map[schema.GroupKind]string{
		plan.NamespaceKind:              StatusByNamespaceController,
		plan.CRDKind:                    "the API server",
		{Kind: "ReplicationController"}: StatusByController,
		{Kind: "ResourceQuota"}:         StatusByController,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:        StatusByController,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                 StatusByController,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:          "the API server",
		{Group: "policy.linkerd.io", Kind: "HTTPRoute"}:                StatusByPolicyWriter,
		{Group: "policy.linkerd.io", Kind: "EgressNetwork"}:            StatusByPolicyWriter,
		{Group: "policy.linkerd.io", Kind: "HTTPLocalRateLimitPolicy"}: StatusByPolicyWriter,
	}
	for _, name := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"} {
		owners[schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: name}] = StatusByPolicyWriter
	}
	for _, name := range []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"} {
		owners[schema.GroupKind{Group: "apps", Kind: name}] = StatusByController
	}
	for _, name := range []string{"Job", "CronJob"} {
		owners[schema.GroupKind{Group: "batch", Kind: name}] = StatusByController
	}
	return owners
}
