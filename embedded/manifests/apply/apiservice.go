package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

// apiService is as much as matters here of the object that says who serves a group
// and version.
type apiService struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Service *struct{} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

const apiServices = "/apis/apiregistration.k8s.io/v1/apiservices"

// unavailable says why the group version is not served, or is empty.
func (a apiService) unavailable() string {
	for _, c := range a.Status.Conditions {
		if c.Type == "Available" && c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("APIService %s is not available: %s: %s", a.Name, c.Reason, c.Message)
		}
	}
	return ""
}

// read gets one object of the API server whole.
func (k *Kinds) read(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryWithin)
	defer cancel()
	data, err := k.client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// down says that the server behind a group version does not answer, or is empty.
func (k *Kinds) Down(ctx context.Context, gv schema.GroupVersion) string {
	if gv.Group == "" {
		return ""
	}
	var service apiService
	if err := k.read(ctx, apiServices+"/"+gv.Version+"."+gv.Group, &service); err != nil {
		return ""
	}
	return service.unavailable()
}

// elsewhere reports whether a group version is served by another server than the API server.
func (k *Kinds) elsewhere(ctx context.Context, gv schema.GroupVersion) bool {
	var service apiService
	err := k.read(ctx, apiServices+"/"+gv.Version+"."+gv.Group, &service)
	return err == nil && service.Spec.Service != nil
}

// namespaceHolder is what the namespace controller says about a namespace that is
// being deleted, with the APIServices that it cannot ask.
func (k *Kinds) namespaceHolder(ctx context.Context, name string) []string {
	var namespace struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := k.read(ctx, "/api/v1/namespaces/"+name, &namespace); err != nil {
		return nil
	}
	var reasons []string
	for _, c := range namespace.Status.Conditions {
		if c.Status != metav1.ConditionTrue || !strings.HasPrefix(c.Type, "Namespace") {
			continue
		}
		if c.Type != "NamespaceDeletionDiscoveryFailure" {
			reasons = append(reasons, c.Message)
			continue
		}
		if missing := k.unavailable(ctx); len(missing) > 0 {
			reasons = append(reasons, missing...)
		} else {
			reasons = append(reasons, c.Message)
		}
	}
	return reasons
}

// unavailable lists the APIServices that do not answer.
func (k *Kinds) unavailable(ctx context.Context) []string {
	var list struct {
		Items []apiService `json:"items"`
	}
	if err := k.read(ctx, apiServices, &list); err != nil {
		return nil
	}
	var missing []string
	for _, service := range list.Items {
		if why := service.unavailable(); why != "" {
			missing = append(missing, why)
		}
	}
	slices.Sort(missing)
	return missing
}

// Holder says what keeps a deleted object, as far as the API server tells.
func (c *Cluster) Holder(ctx context.Context, key source.Key, version string) (why string, gone bool, err error) {
	served, ok, err := c.Kinds.anyVersion(ctx, key.GroupKind().WithVersion(version))
	switch {
	case isAnswer(err):
		return err.Error(), false, nil
	case err != nil || !ok:
		return "", true, err
	}
	meta, err := c.resource(served, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", true, nil
	case isAnswer(err):
		return err.Error(), false, nil
	case err != nil:
		return "", false, err
	case meta.DeletionTimestamp == nil:
		return "", true, nil // another one of this name
	}
	var reasons []string
	if len(meta.Finalizers) > 0 {
		reasons = append(reasons, "its finalizers have not been removed: "+strings.Join(meta.Finalizers, ", "))
	}
	if key.GroupKind() == plan.NamespaceKind {
		reasons = append(reasons, c.Kinds.namespaceHolder(ctx, key.Name)...)
	}
	return strings.Join(reasons, "; "), false, nil
}

// isAnswer reports that err is what a server said, so that there is one.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
