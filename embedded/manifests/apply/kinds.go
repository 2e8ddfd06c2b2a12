package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
)

// kinds knows the API server's kinds by group and version. A kind that is not
// known is asked for again each time, as a CRD may have brought it; one small
// request per group and version, where a REST mapper would read them all.
type Kinds struct {
	client discovery.DiscoveryInterfaceWithContext
	now    func() time.Time
	mu     sync.Mutex
	known  map[schema.GroupVersion]map[string]plan.Kind
	// silent are those about which the API server could not say anything. Nothing is known
	// of them, and everything else goes on.
	silent map[schema.GroupVersion]silence
}

// silence is that of a server behind the API server, which serves one group version.
type silence struct {
	why  string
	next time.Time // when to ask again
}

const (
	// discoveryWithin bounds a question about one group version: the server that the API server
	// asks for it may never answer.
	discoveryWithin = 10 * time.Second
	// silentEvery is how often such a server is asked again.
	silentEvery = 30 * time.Second
	// noticedEvery is how often one that the API server itself says is missing is looked for.
	noticedEvery = 500 * time.Millisecond
)

func newKinds(client discovery.DiscoveryInterfaceWithContext, now func() time.Time) *Kinds {
	return &Kinds{
		client: client, now: now,
		known: map[schema.GroupVersion]map[string]plan.Kind{}, silent: map[schema.GroupVersion]silence{},
	}
}

// silence says why nothing is known of a group version, or is empty.
func (k *Kinds) Silence(gv schema.GroupVersion) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent[gv].why
}

func (k *Kinds) Get(gvk schema.GroupVersionKind) (plan.Kind, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	served, ok := k.known[gvk.GroupVersion()][gvk.Kind]
	return served, ok
}

// ensure asks for the group versions of those gvks that are not known. An error
// means that there is no answer at all; what was known stays.
func (k *Kinds) Ensure(ctx context.Context, gvks []schema.GroupVersionKind) error {
	var missing []schema.GroupVersion
	for _, gvk := range gvks {
		if _, ok := k.Get(gvk); !ok && !slices.Contains(missing, gvk.GroupVersion()) {
			missing = append(missing, gvk.GroupVersion())
		}
	}
	g, ctx := lifecycle.NewGroup(ctx)
	g.SetLimit(8)
	for _, gv := range missing {
		g.Go("kinds of "+gv.String(), func() error { return k.load(ctx, gv) })
	}
	return g.Wait()
}

func (k *Kinds) load(ctx context.Context, gv schema.GroupVersion) error {
	k.mu.Lock()
	before, silent := k.silent[gv]
	k.mu.Unlock()
	if silent {
		if k.now().Before(before.next) {
			return nil
		}
		// The API server knows at once that its own service is missing, and asking that could take long.
		if why := k.Down(ctx, gv); why != "" {
			k.fallSilent(gv, why, noticedEvery)
			return nil
		}
	}
	asked, cancel := context.WithTimeout(ctx, discoveryWithin)
	defer cancel()
	list, err := k.client.ServerResourcesForGroupVersionWithContext(asked, gv.String())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		k.Forget(gv)
		return nil
	case asked.Err() != nil && !k.elsewhere(ctx, gv):
		return fmt.Errorf("ask API server for kinds of %s: %w", gv, err)
	case asked.Err() != nil:
		k.fallSilent(gv, cmp.Or(k.Down(ctx, gv), fmt.Sprintf("nobody answers for %s within %s", gv, discoveryWithin)), silentEvery)
		return nil
	case isAnswer(err):
		k.fallSilent(gv, cmp.Or(k.Down(ctx, gv), fmt.Sprintf("which kinds %s has cannot be found out: %v", gv, err)), noticedEvery)
		return nil
	case err != nil:
		return fmt.Errorf("ask API server for kinds of %s: %w", gv, err)
	}
	served := map[string]plan.Kind{}
	statuses := map[string]bool{}
	for _, r := range list.APIResources {
		if name, sub, ok := strings.Cut(r.Name, "/"); ok {
			if sub == "status" {
				statuses[name] = true
			}
			continue
		}
		if !slices.Contains(r.Verbs, "patch") {
			continue // reviews and the like, which are not stored
		}
		served[r.Kind] = plan.Kind{GVR: gv.WithResource(r.Name), Namespaced: r.Namespaced}
	}
	for name, s := range served {
		s.Status = statuses[s.GVR.Resource]
		served[name] = s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[gv] = served
	delete(k.silent, gv)
	return nil
}

func (k *Kinds) fallSilent(gv schema.GroupVersion, why string, pause time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent[gv] = silence{why: source.OneLine(why), next: k.now().Add(pause)}
}

// forget makes the next ensure ask again.
func (k *Kinds) Forget(gv schema.GroupVersion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, gv)
	delete(k.silent, gv)
}

// forgetGroup forgets all versions of a group.
func (k *Kinds) ForgetGroup(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gv := range k.known {
		if gv.Group == group {
			delete(k.known, gv)
		}
	}
}

// anyVersion finds a kind in the version given or in whichever the server has;
// an object outlives the version it was applied in.
func (k *Kinds) anyVersion(ctx context.Context, gvk schema.GroupVersionKind) (plan.Kind, bool, error) {
	if err := k.Ensure(ctx, []schema.GroupVersionKind{gvk}); err != nil {
		return plan.Kind{}, false, err
	}
	if served, ok := k.Get(gvk); ok {
		return served, true, nil
	}
	if why := k.Silence(gvk.GroupVersion()); why != "" {
		return plan.Kind{}, false, apierrors.NewServiceUnavailable(why)
	}
	versions, err := k.versions(ctx, gvk.Group)
	if err != nil {
		return plan.Kind{}, false, err
	}
	for _, version := range versions {
		other := gvk.GroupKind().WithVersion(version)
		if err := k.Ensure(ctx, []schema.GroupVersionKind{other}); err != nil {
			return plan.Kind{}, false, err
		}
		if served, ok := k.Get(other); ok {
			return served, true, nil
		}
	}
	return plan.Kind{}, false, nil
}

// versions lists what the server has of a group, the preferred one first.
func (k *Kinds) versions(ctx context.Context, group string) ([]string, error) {
	if group == "" {
		return []string{"v1"}, nil
	}
	groups, err := k.client.ServerGroupsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask API server for its groups: %w", err)
	}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
	if i < 0 {
		return nil, nil
	}
	versions := []string{}
	for _, v := range groups.Groups[i].Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// unknown says why gvk is not there, as helpfully as one more request allows.
func (k *Kinds) Unknown(ctx context.Context, gvk schema.GroupVersionKind) string {
	if why := k.Silence(gvk.GroupVersion()); why != "" {
		return why + "; the object is applied when it answers"
	}
	message := fmt.Sprintf("the API server has no kind %s in %s", gvk.Kind, gvk.GroupVersion())
	k.mu.Lock()
	served := k.known[gvk.GroupVersion()]
	for name := range served {
		if strings.EqualFold(name, gvk.Kind) || strings.EqualFold(name, strings.TrimSuffix(gvk.Kind, "s")) {
			k.mu.Unlock()
			return message + fmt.Sprintf("; did you mean %s?", name)
		}
	}
	k.mu.Unlock()
	if served == nil {
		if versions, err := k.versions(ctx, gvk.Group); err == nil && len(versions) > 0 {
			return message + fmt.Sprintf("; it serves %s as %s", cmp.Or(gvk.Group, "Kubernetes' own kinds"), strings.Join(versions, ", "))
		}
	}
	return message + "; it is applied when a CRD brings it"
}
