package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/apis/policy"
	"github.com/linkerd-lite/linkerd-lite/internal/apis/strict"
)

// Problem is something wrong with a field.
type Problem struct {
	// Field is a path such as spec.rules[0].matches[0].path.value.
	Field   string
	Message string
	// undecodable says that the object has another shape than the type that it is read with.
	undecodable bool
}

func (p *Problem) String() string { return p.Field + ": " + p.Message }

// Result is what is found out about an object.
type Result struct {
	// Problem is why the object is refused, nil if it is not.
	Problem *Problem
	// Warnings are what is odd, or cannot be decided, about one that is not.
	Warnings []*Problem
}

// object is one that is checked, with its spec still encoded.
type object struct {
	namespace   string
	annotations map[string]string
	spec        json.RawMessage
	warnings    []*Problem
}

// warn notes what is odd with a field, which is no reason to refuse the object.
func (o *object) warn(at *field.Path, format string, args ...any) {
	o.warnings = append(o.warnings, problem(at, format, args...))
}

// kind is what this package knows of a kind.
type kind struct {
	check func(*object) *Problem
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

// Check finds the first problem of an object given as JSON. The namespace is that of the request; if empty, the
// object's own counts. An object of a kind that is not known here has no problem.
func Check(groupKind schema.GroupKind, namespace string, data []byte) Result {
	kind, ok := lookup(groupKind)
	if !ok {
		return Result{}
	}
	o, problem := decodeObject(namespace, data)
	if problem == nil {
		problem = kind.check(o)
	}
	switch {
	case problem == nil:
		return Result{Warnings: o.warnings}
	case problem.undecodable && kind.lenient:
		return Result{}
	}
	return Result{Problem: problem}
}

func decodeObject(namespace string, data []byte) (*object, *Problem) {
	if len(data) == 0 || string(data) == "null" {
		return nil, &Problem{Field: "object", Message: "missing", undecodable: true}
	}
	var envelope struct {
		Metadata struct {
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return nil, &Problem{Field: "object", Message: text(err), undecodable: true}
	}
	if len(envelope.Spec) == 0 || string(envelope.Spec) == "null" {
		return nil, &Problem{Field: "spec", Message: "missing", undecodable: true}
	}
	if namespace == "" {
		namespace = envelope.Metadata.Namespace
	}
	return &object{namespace: namespace, annotations: envelope.Metadata.Annotations, spec: envelope.Spec}, nil
}

// decode decodes the spec, which must have all that Linkerd's decoder asks for.
func decode[T any](o *object, into *T) *Problem {
	err := json.Unmarshal(o.spec, into)
	if err == nil {
		var content any
		if err = json.Unmarshal(o.spec, &content); err == nil {
			if missing := strict.Check[T](spec(), content); missing != nil {
				return &Problem{Field: missing.Field, Message: missing.ErrorBody(), undecodable: true}
			}
			return nil
		}
	}
	p := &Problem{Field: "spec", Message: text(err), undecodable: true}
	if wrongType := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrongType) && wrongType.Field != "" {
		p.Field += "." + wrongType.Field
		p.Message = wrongType.Value + " where " + jsonType(wrongType.Type.Kind()) + " is expected"
	}
	return p
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

func problem(at *field.Path, format string, args ...any) *Problem {
	return &Problem{Field: at.String(), Message: fmt.Sprintf(format, args...)}
}

// unfit is the problem of a field that cannot be converted, nil without one.
func unfit(err *field.Error) *Problem {
	if err == nil {
		return nil
	}
	return &Problem{Field: err.Field, Message: err.ErrorBody()}
}

// first returns the first problem of a list of checks.
func first(checks ...func() *Problem) *Problem {
	for _, check := range checks {
		if p := check(); p != nil {
			return p
		}
	}
	return nil
}

// each returns the first problem that an item of the list at a path has.
func each[T any](at *field.Path, items []T, check func(at *field.Path, item T) *Problem) *Problem {
	for i, item := range items {
		if p := check(at.Index(i), item); p != nil {
			return p
		}
	}
	return nil
}
