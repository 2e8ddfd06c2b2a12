// Package objects stores objects in a State as an API server has them.
package objects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	apis "github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Name is "Kind/namespace/name" of an object. An HTTPRoute of the gateway group
// is a "GatewayHTTPRoute".
func Name(t testing.TB, doc string) string {
	t.Helper()
	var meta metav1.PartialObjectMetadata
	if err := decode(doc, &meta); err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	kind := meta.Kind
	if kind == "HTTPRoute" && !strings.HasPrefix(meta.APIVersion, apis.Group) {
		kind = "GatewayHTTPRoute"
	}
	return kind + "/" + meta.Namespace + "/" + meta.Name
}

// JSON converts a YAML document. What is JSON is decoded much quicker.
func JSON(t testing.TB, doc string) string {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	return string(text)
}

// decode decodes YAML or JSON.
func decode(doc string, into any) error {
	text := []byte(doc)
	if json.Valid(text) {
		return json.Unmarshal(text, into)
	}
	return yaml.Unmarshal(text, into)
}

// Put decodes the object of that name, prepares it, unless that is nil, and
// stores it in a State.
func Put(st *state.State, name, doc string, prepare func(metav1.Object)) error {
	kind, _, _ := strings.Cut(name, "/")
	table, err := tableOf(kind)
	if err != nil {
		return err
	}
	return table.put(st, doc, prepare)
}

// Remove forgets the object of that name.
func Remove(st *state.State, name string) error {
	kind, key, _ := strings.Cut(name, "/")
	table, err := tableOf(kind)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(key, "/")
	table.remove(st, namespace, name)
	return nil
}

// table is where a State has the objects of a kind.
type table interface {
	put(st *state.State, doc string, prepare func(metav1.Object)) error
	remove(st *state.State, namespace, name string)
}

func tableOf(kind string) (table, error) {
	switch kind {
	case "Service":
		return of(state.Services), nil
	case "Pod":
		return of(state.Pods), nil
	case "EndpointSlice":
		return of(state.EndpointSlices), nil
	case "Endpoints":
		return of(state.Endpoints), nil
	case "Node":
		return of(state.Nodes), nil
	case "ReplicaSet":
		return of(state.ReplicaSets), nil
	case "Job":
		return of(state.Jobs), nil
	case "Secret":
		return of(state.Secrets), nil
	case "ServiceProfile":
		return of(state.ServiceProfiles), nil
	case "ExternalWorkload":
		return of(state.ExternalWorkloads), nil
	case "Server":
		return of(state.Servers), nil
	case "ServerAuthorization":
		return of(state.ServerAuthorizations), nil
	case "AuthorizationPolicy":
		return of(state.AuthorizationPolicies), nil
	case "MeshTLSAuthentication":
		return of(state.MeshTLSAuthentications), nil
	case "NetworkAuthentication":
		return of(state.NetworkAuthentications), nil
	case "HTTPLocalRateLimitPolicy":
		return of(state.HTTPLocalRateLimitPolicies), nil
	case "EgressNetwork":
		return of(state.EgressNetworks), nil
	case "HTTPRoute":
		return of(state.PolicyHTTPRoutes), nil
	case "GatewayHTTPRoute":
		return of(state.HTTPRoutes), nil
	case "GRPCRoute":
		return of(state.GRPCRoutes), nil
	case "TLSRoute":
		return of(state.TLSRoutes), nil
	case "TCPRoute":
		return of(state.TCPRoutes), nil
	case "Deployment", "StatefulSet", "CronJob", "Namespace", "ServiceAccount":
		return unread{}, nil
	}
	return nil, fmt.Errorf("kind %q is not known to the tests", kind)
}

// unread is for kinds that nothing reads.
type unread struct{}

func (unread) put(*state.State, string, func(metav1.Object)) error { return nil }
func (unread) remove(*state.State, string, string)                 {}

type typed[T interface {
	state.Object
	*E
}, E any] struct{ kind *state.Kind[T] }

func of[T interface {
	state.Object
	*E
}, E any](kind *state.Kind[T]) table {
	return typed[T, E]{kind}
}

func (k typed[T, E]) put(st *state.State, doc string, prepare func(metav1.Object)) error {
	obj := T(new(E))
	if err := decode(doc, obj); err != nil {
		return err
	}
	if prepare != nil {
		prepare(obj)
	}
	state.Put(st, k.kind, obj)
	return nil
}

func (k typed[T, E]) remove(st *state.State, namespace, name string) {
	state.Remove(st, k.kind, namespace, name)
}
