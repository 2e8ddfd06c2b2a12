package admission

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/strict"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// object is one that is checked, with its spec still encoded.
type object struct {
	namespace, name string
	annotations     map[string]string
	spec            json.RawMessage
	warnings        []problems.Problem
	// undecodable says that the object has another shape than the type that it is read with.
	undecodable bool
}

// warn notes what is odd with a field, which is no reason to refuse the object.
func (o *object) warn(at *field.Path, format string, args ...any) {
	o.warnings = append(o.warnings, problems.Odd(at, format, args...))
}

// unreadable is an error of a field that keeps the object from being decoded.
func (o *object) unreadable(field, message string) *problems.Problem {
	o.undecodable = true
	return &problems.Problem{Field: field, Message: message, Severity: problems.Error}
}

// kind is what this package knows of a kind.
type kind struct {
	check func(*object) *problems.Problem
	// lenient kinds are read by other controllers too: what does not decode here is theirs to judge (B69).
	lenient bool
}

// lookup finds a kind, without regard to case. The version does not count: the newest shape decodes the older ones.
func lookup(groupKind schema.GroupKind) (kind, bool) {
	name := strings.ToLower(groupKind.Kind)
	switch strings.ToLower(groupKind.Group) {
	case policy.Group:
		switch name {
		case "server":
			return kind{check: checkServer}, true
		case "serverauthorization":
			return kind{check: checkServerAuthorization}, true
		case "authorizationpolicy":
			return kind{check: checkAuthorizationPolicy}, true
		case "meshtlsauthentication":
			return kind{check: checkMeshTLSAuthentication}, true
		case "networkauthentication":
			return kind{check: checkNetworkAuthentication}, true
		case "egressnetwork":
			return kind{check: checkEgressNetwork}, true
		case "httplocalratelimitpolicy":
			return kind{check: checkRateLimit}, true
		case "httproute":
			return kind{check: checkPolicyHTTPRoute}, true
		}
	case policy.GatewayGroup:
		switch name {
		case "httproute":
			return kind{check: checkHTTPRoute, lenient: true}, true
		case "grpcroute":
			return kind{check: checkGRPCRoute, lenient: true}, true
		case "tlsroute":
			return kind{check: checkTLSRoute, lenient: true}, true
		case "tcproute":
			return kind{check: checkTCPRoute, lenient: true}, true
		}
	}
	return kind{}, false
}

// Knows tells whether objects of a kind are checked here.
func Knows(groupKind schema.GroupKind) bool {
	_, ok := lookup(groupKind)
	return ok
}

// Check returns what is wrong with an object given as JSON: the first error, for which it is refused, or what is odd, or
// cannot be decided, about one that is not. The namespace is that of the request; if empty, the object's own counts. An
// object of a kind that is not known here has no problem.
func Check(groupKind schema.GroupKind, namespace string, data []byte) []problems.Problem {
	kind, ok := lookup(groupKind)
	if !ok {
		return nil
	}
	o := &object{namespace: namespace}
	refusal := o.decode(data)
	if refusal == nil {
		refusal = kind.check(o)
	}
	found := o.warnings
	switch {
	case o.undecodable && kind.lenient:
		return nil
	case refusal != nil:
		found = []problems.Problem{*refusal}
	}
	return problems.About(problems.ObjectOf(groupKind.WithVersion(""), o.namespace, o.name), found)
}

// decode decodes all but the spec.
func (o *object) decode(data []byte) *problems.Problem {
	if len(data) == 0 || string(data) == "null" {
		return o.unreadable("object", "missing")
	}
	var envelope struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return o.unreadable("object", text(err))
	}
	o.namespace, o.name = cmp.Or(o.namespace, envelope.Metadata.Namespace), envelope.Metadata.Name
	o.annotations, o.spec = envelope.Metadata.Annotations, envelope.Spec
	if len(envelope.Spec) == 0 || string(envelope.Spec) == "null" {
		return o.unreadable("spec", "missing")
	}
	return nil
}

// decodeSpec decodes the spec, which must have all that Linkerd's decoder asks for.
func decodeSpec[T any](o *object, into *T) *problems.Problem {
	err := json.Unmarshal(o.spec, into)
	if err == nil {
		var content any
		if err = json.Unmarshal(o.spec, &content); err == nil {
			if missing := strict.Check[T](spec(), content); missing != nil {
				return o.unreadable(missing.Field, missing.ErrorBody())
			}
			return nil
		}
	}
	if wrongType := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrongType) && wrongType.Field != "" {
		return o.unreadable("spec."+wrongType.Field, wrongType.Value+" where "+jsonType(wrongType.Type.Kind())+" is expected")
	}
	return o.unreadable("spec", text(err))
}

// jsonType is what users call the values that a field of a kind takes.
func jsonType(kind reflect.Kind) string {
	switch kind {
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return kind.String()
}

func text(err error) string { return strings.TrimPrefix(err.Error(), "json: ") }

// first returns the first problem of a list of checks.
func first(checks ...func() *problems.Problem) *problems.Problem {
	for _, check := range checks {
		if p := check(); p != nil {
			return p
		}
	}
	return nil
}

// each returns the first problem that an item of the list at a path has.
func each[T any](at *field.Path, items []T, check func(at *field.Path, item T) *problems.Problem) *problems.Problem {
	for i, item := range items {
		if p := check(at.Index(i), item); p != nil {
			return p
		}
	}
	return nil
}
