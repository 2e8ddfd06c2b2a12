package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"

	"github.com/linkerd-lite/linkerd-lite/internal/lifecycle"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	pollInterval = 10 * time.Millisecond
	// startTimeout is the longest time from serving to the first answer.
	startTimeout = time.Minute
	// hooksTimeout bounds the wait for start hooks when the server is to stop
	// while it starts.
	hooksTimeout = 3 * time.Second
)

// Config sets up a Server.
type Config struct {
	// Listener is where the server serves; it owns it from Run on.
	Listener net.Listener
	Keys     *Keys
	// EtcdServers are the URLs of the store.
	EtcdServers []string
	// ServiceCIDR is the range of cluster IPs, or one per family with a comma.
	ServiceCIDR string
	// Webhooks is how the server shows itself to the program's own webhooks.
	Webhooks WebhookClient
	// Elsewhere says where what a pod would serve is served instead; empty if nowhere. Nil: nowhere.
	// It is asked without Nodes only.
	Elsewhere func(namespace, pod string) string
	// Nodes lead to the server of the processes of pods. Nil: pods have none.
	Nodes *Nodes
	// Serves says why a subresource of a pod (log, exec, attach, portforward) is not served by Nodes:
	// the user gets an apierrors.APIStatus as it is, and the text of other errors. container may be "".
	Serves func(subresource, namespace, pod, container string) error
	// DialPod connects to an address that is not this machine's, on behalf of a pod, or a Service with
	// a webhook or an API. Nil: nothing is connected to.
	DialPod func(ctx context.Context, network, address string) (net.Conn, error)
	// Problems gets what the API server refuses of the default objects.
	Problems *problems.Table
	Log      *slog.Logger
}

// Server is one kube-apiserver.
type Server struct {
	config   Config
	listener *listener
	// client is that of users, own that of the program itself.
	client, own *rest.Config
	// waits is why the last attempt to reach the server failed.
	waits atomic.Pointer[error]
}

// Waits says why the server does not count as ready yet.
func (s *Server) Waits() string {
	if err := s.waits.Load(); err != nil && *err != nil {
		return (*err).Error()
	}
	return ""
}

// New prepares a server; it does no I/O.
func New(config Config) (*Server, error) {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Elsewhere == nil {
		config.Elsewhere = func(string, string) string { return "" }
	}
	if config.Nodes == nil {
		config.Serves = withoutProcesses(config.Elsewhere)
	}
	if _, ok := config.Listener.Addr().(*net.TCPAddr); !ok {
		return nil, fmt.Errorf("API server: cannot serve on %s %s", config.Listener.Addr().Network(), config.Listener.Addr())
	}
	s := &Server{config: config, listener: newListener(config.Listener)}
	var err error
	if s.client, err = config.Keys.clientConfig(adminName, config.Listener.Addr()); err != nil {
		return nil, err
	}
	if s.own, err = config.Keys.clientConfig(ownUser, config.Listener.Addr()); err != nil {
		return nil, err
	}
	return s, nil
}

// Client returns a configuration for clients with all rights and no limit of
// requests. It belongs to the caller.
func (s *Server) Client() *rest.Config { return rest.CopyConfig(s.client) }

// building is held while a server is put together: that reads and writes
// registries of Kubernetes that are process-wide.
var building sync.Mutex

// Run serves until ctx ends. It calls ready when the server answers and the
// namespaces exist in which anything can be created; some of its start hooks
// are still running then (see WaitHooks).
func (s *Server) Run(ctx context.Context, ready func()) error {
	defer s.listener.conns.Close()
	quietClientLog()
	chain, err := s.build(ctx)
	if err != nil {
		s.listener.Close()
		return fmt.Errorf("setting up the API server: %w", err)
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		chain.GenericAPIServer.Destroy()
		s.listener.Close()
		return fmt.Errorf("preparing the API server: %w", err)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := lifecycle.Go("requests", func() error { return prepared.Run(serving) })

	// started gets the result of the start; then the hooks are waited for, also
	// when ctx has ended, as a start hook that is cancelled ends the process.
	started := make(chan error, 1)
	waiting, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	hooked := lifecycle.Go("start hooks", func() error {
		started <- <-lifecycle.Go("start", func() error {
			err := s.start(ctx)
			if err == nil {
				ready()
			}
			return err
		})
		return s.WaitHooks(waiting)
	})
	var failure error
	for running := true; running; {
		select {
		case err := <-ended:
			giveUp()
			<-hooked
			if err == nil {
				err = errors.New("ended by itself")
			}
			return fmt.Errorf("API server: %w", err)
		case err := <-started:
			if err != nil && ctx.Err() == nil {
				failure, running = err, false
			}
			started = nil
		case <-ctx.Done():
			running = false
		}
	}
	select {
	case err := <-hooked:
		if err != nil {
			return errors.Join(failure, err)
		}
	case <-time.After(hooksTimeout):
		giveUp()
		return errors.Join(failure, <-hooked)
	}
	stop()
	return errors.Join(failure, <-ended)
}

func (s *Server) build(ctx context.Context) (*aggregatorapiserver.APIAggregator, error) {
	building.Lock()
	defer building.Unlock()
	completed, err := s.complete(ctx)
	if err != nil {
		return nil, err
	}
	return s.createChain(completed)
}

// complete turns features off, which is for the whole process, and returns the
// options.
func (s *Server) complete(ctx context.Context) (options.CompletedOptions, error) {
	off := map[string]bool{}
	for _, gate := range gatesOff {
		if utilfeature.DefaultFeatureGate.Enabled(gate) {
			off[string(gate)] = false
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(off); err != nil {
		return options.CompletedOptions{}, err
	}
	return s.options(ctx)
}

func (s *Server) createChain(completed options.CompletedOptions) (*aggregatorapiserver.APIAggregator, error) {
	config, err := newConfig(completed)
	if err != nil {
		return nil, err
	}
	s.limitDials(config)
	kube := config.KubeAPIs.ControlPlane.Generic
	builtin, err := openDescriptions(descriptionsZip)
	if err != nil {
		return nil, err
	}
	description := &openAPI{
		builtin:  builtin,
		policies: config.Aggregator.GenericConfig.SharedInformerFactory.Admissionregistration().V1().MutatingAdmissionPolicies().Lister(),
	}
	kube.SkipOpenAPIInstallation = true
	config.ApiExtensions.GenericConfig.SkipOpenAPIInstallation = true
	config.Aggregator.GenericConfig.OpenAPIConfig = nil
	writes := &writeQueue{turns: make(chan struct{}, writesAtOnce()), patience: writePatience, longRunning: kube.LongRunningFunc}
	quantities := newQuantityGuard(legacyscheme.Scheme, legacyscheme.Codecs, kube.MaxRequestBodyBytes, kube.LongRunningFunc)
	refuse := func(next http.Handler) http.Handler { return refuseProcesses(s.config.Serves, next) }
	inside(&config.Aggregator.GenericConfig.Config, refuse, quantities.before, writes.before, finishRequests(kube.LongRunningFunc), description.before)

	configured, err := config.Complete()
	if err != nil {
		return nil, err
	}
	chain, err := app.CreateServerChain(configured)
	if err != nil {
		return nil, err
	}
	if description.custom, err = listDefinitions(chain.GenericAPIServer.LoopbackClientConfig); err != nil {
		return nil, err
	}
	chain.GenericAPIServer.ShutdownTimeout = connectionGrace
	// Only what installs a group reads the definitions.
	kube.OpenAPIV3Config.Definitions = nil
	return chain, nil
}

// newConfig is the configuration of the servers of the chain.
func newConfig(completed options.CompletedOptions) (*app.Config, error) {
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	kube := config.KubeAPIs.ControlPlane.Generic
	// They sleep first, ignore cancellation, and end the process when they do
	// not succeed: see KeepRoles and KeepPriorities.
	kube.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, schedulingrest.PostStartHookName)
	kube.EffectiveVersion = reportedVersion{kube.EffectiveVersion}
	config.ApiExtensions.GenericConfig.EffectiveVersion = kube.EffectiveVersion
	config.Aggregator.GenericConfig.EffectiveVersion = kube.EffectiveVersion
	return config, nil
}

// inside puts handlers between what the server does with every request, such as
// to find out who asks, and its API. The first handler is the outermost.
func inside(config *genericapiserver.Config, handlers ...func(http.Handler) http.Handler) {
	around := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		for _, handler := range slices.Backward(handlers) {
			api = handler(api)
		}
		return around(api, config)
	}
}

// start waits for the first answer and makes the namespaces without which
// nothing can be created (B48). The server makes them too, a moment later.
func (s *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(s.own)
	if err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := s.poll(ctx, func() error {
			_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			}
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("making namespace %s: %w", name, err)
		}
	}
	return nil
}

// WaitHooks waits until /readyz passes: all of the server's start hooks have
// finished then.
func (s *Server) WaitHooks(ctx context.Context) error {
	client, err := rest.HTTPClientFor(s.client)
	if err != nil {
		return err
	}
	err = s.poll(ctx, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.client.Host+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
			return fmt.Errorf("%s: %s", response.Status, failedChecks(string(body)))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start hooks of the API server: %w", err)
	}
	return nil
}

// failedChecks are the names of those that /readyz lists as failed.
func failedChecks(body string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	return strings.Join(failed, ", ")
}

// poll calls try until it succeeds, ctx ends, or it fails in a way that does
// not pass.
func (s *Server) poll(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := try()
		s.waits.Store(&err)
		var untrusted *tls.CertificateVerificationError
		if err == nil || errors.As(err, &untrusted) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
