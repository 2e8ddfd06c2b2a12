package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
)

// ownUser writes what the program itself needs: default roles, priorities and
// namespaces, the built-in definitions, the objects of the control plane, its
// webhook configurations and Leases.
const ownUser = "system:linkerd-lite"

// byUsers are the admission plugins that refuse or change a write because of an
// object that a user made.
var byUsers = sets.New(
	mutatingwebhook.PluginName,
	validatingwebhook.PluginName,
	mutatingpolicy.PluginName,
	validatingpolicy.PluginName,
	resourcequota.PluginName,
	limitranger.PluginName,
)

// OwnClient returns a configuration for clients of the program itself. What
// they write passes no webhook, policy or quota of a user: otherwise one such
// object in the store, whose webhook is not there or which refuses everything,
// would keep the program from starting, and so from ever removing it. The API
// server itself exempts configurations of webhooks for the same reason.
func (s *Server) OwnClient() *rest.Config { return rest.CopyConfig(s.own) }

// exemptOwn decorates the plugins of byUsers: they do not see what the program
// and the API server write for themselves.
func exemptOwn(plugin admission.Interface, name string) admission.Interface {
	if !byUsers.Has(name) {
		return plugin
	}
	return &exempting{Interface: plugin}
}

type exempting struct{ admission.Interface }

var (
	_ admission.MutationInterface   = (*exempting)(nil)
	_ admission.ValidationInterface = (*exempting)(nil)
)

func (e *exempting) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := e.Interface.(admission.MutationInterface); ok && !own(a.GetUserInfo()) {
		return plugin.Admit(ctx, a, o)
	}
	return nil
}

func (e *exempting) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if plugin, ok := e.Interface.(admission.ValidationInterface); ok && !own(a.GetUserInfo()) {
		return plugin.Validate(ctx, a, o)
	}
	return nil
}

func own(asker user.Info) bool {
	return asker != nil && (asker.GetName() == ownUser || asker.GetName() == user.APIServerUser)
}
