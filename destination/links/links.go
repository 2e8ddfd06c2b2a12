package links

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Config is what Links needs.
type Config struct {
	// State holds the Secrets.
	State *state.State
	// EndpointSlices false reads Endpoints in linked clusters, as in the own one.
	EndpointSlices bool
	Log            *slog.Logger
	// Registerer gets cluster_store_size and the cache sizes of linked clusters; nil means no metrics.
	Registerer prometheus.Registerer
}

// Links are the linked clusters.
//
// Each Secret starts an attempt that is repeated until the cluster's API
// server lets itself be watched; once all its objects are here, Lookup finds the cluster. A
// Secret that is changed or deleted ends the link; a changed one starts another,
// unless it cannot be read any more: then the link stays as it is.
type Links struct {
	config Config

	mu       sync.Mutex
	attempts map[string]*attempt
	// last is the newest attempt for each cluster until it is over.
	last map[string]*attempt
	// changed is closed and replaced whenever a link comes or goes.
	changed chan struct{}
}

var _ destination.Links = (*Links)(nil)

type attempt struct {
	credentials credentials
	cancel      context.CancelFunc
	link        *destination.Link // nil until linked; guarded by Links.mu
	ended       chan struct{}
	// over is closed when nothing is done for it any more.
	over chan struct{}
}

// source is who says which clusters are not linked; these are the beginnings of
// its subjects, before the name of a Secret or of a cluster.
const (
	source         = "links"
	secretSubject  = "secret/"
	clusterSubject = "cluster/"
)

// New returns Links without any cluster. It does no I/O.
func New(config Config) (*Links, error) {
	l := &Links{config: config, attempts: map[string]*attempt{}, last: map[string]*attempt{}, changed: make(chan struct{})}
	if config.Registerer == nil {
		return l, nil
	}
	err := config.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cluster_store_size", Help: "Number of linked clusters.",
	}, func() float64 { return float64(l.size()) }))
	if err != nil {
		return nil, fmt.Errorf("register cluster_store_size: %w", err)
	}
	return l, nil
}

func (l *Links) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.attempts {
		if a.link != nil {
			n++
		}
	}
	return n
}

// Lookup implements destination.Links. For a cluster that is not linked the
// channel is closed when any link comes.
func (l *Links) Lookup(cluster string) (*destination.Link, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.attempts[cluster]; a != nil && a.link != nil {
		return a.link, a.ended
	}
	return nil, l.changed
}

// Run follows the Secrets until ctx ends, and returns nil once all watches of
// linked clusters have ended too.
func (l *Links) Run(ctx context.Context) error {
	sub := l.config.State.Subscribe()
	defer l.config.State.Unsubscribe(sub)
	if err := l.config.State.WaitSynced(ctx); err != nil {
		return nil
	}
	var running sync.WaitGroup
	defer running.Wait()
	for {
		l.reconcile(ctx, &running)
		for {
			changes, err := sub.Next(ctx)
			if err != nil {
				l.endAll()
				return nil
			}
			if aboutSecrets(changes) {
				break
			}
		}
	}
}

func aboutSecrets(changes []state.Change) bool {
	for _, c := range changes {
		if c.Kind == &state.Secrets.KindInfo {
			return true
		}
	}
	return false
}

// reconcile starts and ends attempts so that they match the Secrets.
func (l *Links) reconcile(ctx context.Context, running *sync.WaitGroup) {
	unreadable := map[string]bool{}
	want := wanted(state.All(l.config.State.Snapshot().Reader(), state.Secrets), func(secret *corev1.Secret, err error) {
		name := nameOf(secret)
		unreadable[name] = true
		l.config.State.Problems().Say(source, secretSubject+name, problems.Problem{
			Object:  problems.ObjectOf(state.Secrets.GVK, secret.Namespace, secret.Name),
			Message: "does not link a cluster: " + err.Error(), Instead: "a link that it has made stays", Severity: problems.Error,
		})
	})
	l.config.State.Problems().Keep(source, func(subject string) bool {
		name, isSecret := strings.CutPrefix(subject, secretSubject)
		return !isSecret || unreadable[name]
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster, a := range l.attempts {
		c, ok := want[cluster]
		switch {
		case ok && c.equal(a.credentials):
			a.credentials.secret = c.secret
		case ok || !unreadable[a.credentials.secret]:
			l.end(cluster)
		}
	}
	for cluster, c := range want {
		if l.attempts[cluster] != nil {
			continue
		}
		attemptCtx, cancel := context.WithCancel(ctx)
		a := &attempt{credentials: c, cancel: cancel, ended: make(chan struct{}), over: make(chan struct{})}
		before := l.last[cluster]
		l.attempts[cluster], l.last[cluster] = a, a
		running.Go(func() {
			defer l.leave(a)
			if before != nil {
				<-before.over // it gives way to this one, and takes its problems and metrics along
			}
			l.attempt(attemptCtx, a)
		})
	}
}

// leave is the end of all that was done for an attempt.
func (l *Links) leave(a *attempt) {
	l.config.State.Problems().Say(source, clusterSubject+a.credentials.cluster)
	l.config.State.Problems().Leave(a.credentials.cluster)
	close(a.over)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[a.credentials.cluster] == a {
		delete(l.last, a.credentials.cluster)
	}
}

// end ends an attempt. The lock is held.
func (l *Links) end(cluster string) {
	a := l.attempts[cluster]
	delete(l.attempts, cluster)
	a.cancel()
	if a.link != nil {
		close(a.ended)
		a.link = nil
		l.config.Log.Info("cluster is not linked any more", "cluster", cluster)
	}
}

func (l *Links) endAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster := range l.attempts {
		l.end(cluster)
	}
}

// attempt tries to link until ctx ends, and then keeps the link until ctx ends.
func (l *Links) attempt(ctx context.Context, a *attempt) {
	log := l.config.Log.With("cluster", a.credentials.cluster)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(a.credentials.kubeconfig))
	if err != nil {
		l.unlinked(a, fmt.Errorf("its kubeconfig cannot be read: %w", err), "")
		return
	}
	config.QPS = -1
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 6, Cap: 30 * time.Second}
	for {
		err := probe(ctx, config)
		if err == nil {
			break
		}
		l.unlinked(a, err, "it will be tried again")
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	l.config.State.Problems().Say(source, clusterSubject+a.credentials.cluster)
	if err := l.keep(ctx, a, config, log); err != nil {
		log.Error("link failed", "error", err)
	}
}

// unlinked says why a cluster is not linked.
func (l *Links) unlinked(a *attempt, err error, instead string) {
	l.mu.Lock()
	namespace, name, _ := strings.Cut(a.credentials.secret, "/")
	l.mu.Unlock()
	l.config.State.Problems().Say(source, clusterSubject+a.credentials.cluster, problems.Problem{
		Object:  problems.ObjectOf(state.Secrets.GVK, namespace, name),
		Message: fmt.Sprintf("cluster %s is not linked: %s", a.credentials.cluster, problems.Text(err)), Instead: instead, Severity: problems.Error,
	})
}

// probePatience is how long an API server of a linked cluster may take to answer.
const probePatience = 30 * time.Second

// probe checks what a linked cluster must allow: listing pods, and Servers of
// the version that is read.
func probe(ctx context.Context, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	limit := metav1.ListOptions{Limit: 1}
	if _, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, limit); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := meta.Resource(state.Servers.GVR).List(ctx, limit); err != nil {
		return fmt.Errorf("list servers of %s: %w", state.Servers.GVK.GroupVersion(), err)
	}
	return nil
}

// keep watches the cluster until ctx ends.
func (l *Links) keep(ctx context.Context, a *attempt, config *rest.Config, log *slog.Logger) error {
	st, err := state.New(state.Config{
		Cluster:    a.credentials.cluster,
		Kinds:      state.RemoteKinds(l.config.EndpointSlices),
		Log:        log,
		Problems:   l.config.State.Problems(),
		Registerer: l.config.Registerer,
	})
	if err != nil {
		return err
	}
	defer st.UnregisterMetrics()
	graph := view.NewGraph(st)
	group, watching := lifecycle.NewGroup(ctx)
	group.Go("state of a linked cluster", func() error {
		return st.Run(watching, config, func() {
			// Not earlier: a client takes the first message of a stream for all there is.
			l.publish(ctx, a, &destination.Link{
				Cluster:       a.credentials.cluster,
				TrustDomain:   a.credentials.trustDomain,
				ClusterDomain: a.credentials.clusterDomain,
				State:         st,
				Graph:         graph,
			})
			log.Info("cluster is linked")
		})
	})
	group.Go("views of a linked cluster", func() error { return graph.Run(watching) })
	return group.Wait()
}

// publish lets Lookup find the link of an attempt that has not ended.
func (l *Links) publish(ctx context.Context, a *attempt, link *destination.Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	a.link = link
	close(l.changed)
	l.changed = make(chan struct{})
}
