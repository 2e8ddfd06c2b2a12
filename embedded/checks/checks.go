package checks

import (
	"cmp"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
	"github.com/linkerd-lite/linkerd-lite/internal/webhook"
	"github.com/linkerd-lite/linkerd-lite/policy/admission"
	"github.com/linkerd-lite/linkerd-lite/validator"
)

// Config is what the checks know of the cluster.
type Config struct {
	ClusterDomain string
	// ServiceExists tells whether there is a Service. If nil, it is not asked.
	ServiceExists func(namespace, name string) bool
	// Odd says what else is odd about an object of policy that is admitted; it may be nil.
	Odd func(*admissionv1.AdmissionRequest) []string
}

// Check is one validating webhook of Linkerd.
type Check struct {
	// Hook says which objects it is asked about.
	Hook webhook.Hook
	// Endpoint answers the API server.
	Endpoint webhook.Endpoint
	// judge says what is wrong with an object in a namespace, given as JSON.
	judge func(object *unstructured.Unstructured, namespace string, data []byte) []problems.Problem
}

// Checks are those of a cluster. Immutable.
type Checks []Check

// New returns the checks. It does no I/O.
func New(config Config) Checks {
	profiles := validator.Options{ClusterDomain: config.ClusterDomain, ServiceExists: config.ServiceExists}
	profileHook, policyHook := serviceProfileHook(), policyHook()
	return Checks{
		{
			Hook:     profileHook,
			Endpoint: webhook.Endpoint{Name: "serviceprofiles", Path: profileHook.Path, Review: validator.Review(profiles), Dialect: webhook.ControllerDialect},
			judge: func(_ *unstructured.Unstructured, _ string, data []byte) []problems.Problem {
				return validator.Validate(data, profiles)
			},
		}, {
			Hook:     policyHook,
			Endpoint: webhook.Endpoint{Name: "policy", Path: policyHook.Path, Review: admission.Review(config.Odd), Dialect: webhook.PolicyDialect},
			judge: func(object *unstructured.Unstructured, namespace string, data []byte) []problems.Problem {
				return admission.Check(object.GroupVersionKind().GroupKind(), namespace, data)
			},
		},
	}
}

// Hooks are what the API server is to know of the checks.
func (c Checks) Hooks() []webhook.Hook {
	var hooks []webhook.Hook
	for _, check := range c {
		hooks = append(hooks, check.Hook)
	}
	return hooks
}

// Endpoints are what answers the API server.
func (c Checks) Endpoints() []webhook.Endpoint {
	var endpoints []webhook.Endpoint
	for _, check := range c {
		endpoints = append(endpoints, check.Endpoint)
	}
	return endpoints
}

// Judge returns what the webhooks would say of an object that is created or changed, with errors for which they would
// refuse it. Those that the API server would not ask, by their rules and selectors, have no say. The labels of the
// object's namespace are asked for only where they decide. An object without a namespace is one of the namespace default.
func (c Checks) Judge(object *unstructured.Unstructured, namespaceLabels func() map[string]string) []problems.Problem {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	namespace := cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	var found []problems.Problem
	for _, check := range c {
		if !check.Hook.Covers(resource) {
			continue
		}
		said := check.say(object, namespace)
		if len(said) > 0 && check.Hook.Selects(object.GetLabels(), labels.Set(namespaceLabels())) {
			found = append(found, said...)
		}
	}
	return found
}

// say is what the check finds. That it panics is a problem of the object, as it is for the webhook.
func (c *Check) say(object *unstructured.Unstructured, namespace string) (found []problems.Problem) {
	failed := func(err error) []problems.Problem {
		return []problems.Problem{{
			Object:  problems.ObjectOf(object.GroupVersionKind(), namespace, object.GetName()),
			Message: err.Error(), Severity: problems.Error,
		}}
	}
	if fault := problems.Catch(func() {
		data, err := object.MarshalJSON()
		if err != nil {
			found = failed(err)
			return
		}
		found = c.judge(object, namespace, data)
	}); fault != nil {
		return failed(fault)
	}
	return found
}
