package embedded

import (
	"context"
	"path/filepath"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/linkerd-lite/linkerd-lite/embedded/apiserver"
	"github.com/linkerd-lite/linkerd-lite/embedded/checks"
	"github.com/linkerd-lite/linkerd-lite/embedded/injector"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
)

// webhooks are the admission webhooks of an instance.
type webhooks struct {
	// server is nil without any hook.
	server    *webhook.Server
	registrar *webhook.Registrar

	// injector is made when the trust anchors are known that it writes into pods.
	injector    atomic.Pointer[injector.Injector]
	newInjector func() *injector.Injector
}

// newWebhooks builds the webhooks. The control plane may be nil.
func (c *Cluster) newWebhooks(kube kubernetes.Interface, authority *identity.Service, plane *controlPlane, apiServer *webhook.Client) (*webhooks, error) {
	o := c.config
	w := &webhooks{}
	w.newInjector = func() *injector.Injector {
		return injector.New(injector.Config{
			Default:      o.Inject,
			Settings:     o.ControlPlane.Settings,
			TrustAnchors: string(authority.Anchors().PEM),
		}, injector.NewLookup(kube))
	}
	var hooks []webhook.Hook
	var endpoints []webhook.Endpoint
	if o.has(PartWebhooks) {
		validating := checks.New(c.config.checks(plane))
		hooks, endpoints = validating.Hooks(), validating.Endpoints()
	}
	if o.has(PartInjector) {
		hook := injector.Hook()
		hooks = append(hooks, hook)
		endpoints = append(endpoints, webhook.Endpoint{Name: "injector", Path: hook.Path, Dialect: webhook.ControllerDialect,
			Review: func(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				return w.injector.Load().Review(ctx, request)
			}})
	}
	if len(hooks) > 0 {
		namespace := "." + o.ControlPlane.ControlPlaneNamespace + ".svc"
		var err error
		if w.server, err = webhook.New(webhook.Config{
			Listener:   c.listeners["webhook"],
			Client:     apiServer,
			Endpoints:  endpoints,
			Dir:        filepath.Join(c.dir.Path(), "webhooks"),
			DNSNames:   []string{"linkerd-sp-validator" + namespace, "linkerd-policy-validator" + namespace, "linkerd-proxy-injector" + namespace},
			Replaced:   c.certificateReplaced,
			Registerer: c.registry,
			Log:        c.log.With("part", "webhook"),
		}); err != nil {
			return nil, err
		}
	}
	w.registrar = webhook.NewRegistrar(webhook.RegistrarConfig{
		Own: c.own, User: c.client, Namespace: o.ControlPlane.ControlPlaneNamespace, Server: w.server, Hooks: hooks, Known: allHooks(),
		Problems: c.problems, Log: c.log.With("part", "admission"),
	})
	return w, nil
}

// shownToWebhooks is how the API server shows itself to the webhooks.
func (c *Cluster) shownToWebhooks(client *webhook.Client) apiserver.WebhookClient {
	listener, ok := c.listeners["webhook"]
	if !ok {
		return apiserver.WebhookClient{}
	}
	cert, key := client.KeyPair()
	return apiserver.WebhookClient{Address: listener.Addr().String(), Certificate: cert, Key: key}
}

func (w *webhooks) run(ctx context.Context, ready func()) error {
	w.injector.Store(w.newInjector())
	return w.server.Run(ctx, ready)
}

// allHooks are those that there can be.
func allHooks() []webhook.Hook {
	return append(checks.New(checks.Config{}).Hooks(), injector.Hook())
}

// checks are what the checks of objects know of the cluster. Without a control
// plane they know less.
func (c *Config) checks(plane *controlPlane) checks.Config {
	config := checks.Config{ClusterDomain: c.ControlPlane.ClusterDomain}
	if plane != nil {
		config.Odd = plane.oddServer
		config.ServiceExists = func(namespace, name string) bool {
			_, ok := state.Get(plane.state.Snapshot().Reader(), state.Services, namespace, name)
			return ok
		}
	}
	return config
}
