package validator

import (
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	minStatus = 100
	maxStatus = 599
)

// Options are what the check knows beside the object.
type Options struct {
	// ClusterDomain is the DNS domain of Services.
	ClusterDomain string
	// ServiceExists tells whether there is a Service. If nil, it is not asked.
	ServiceExists func(namespace, name string) bool
}

// Validate checks a ServiceProfile given as JSON or YAML. It keeps nothing of its arguments. A profile is denied for an
// error, of which there is the first in the order of Linkerd's checks; warnings are things that Linkerd lets through
// though they cannot work.
func Validate(object []byte, options Options) []problems.Problem {
	var p profile
	var found []problems.Problem
	err := yaml.UnmarshalStrict(object, &p)
	if err != nil {
		found = []problems.Problem{*decodeProblem(err)}
	} else if refusal := p.check(); refusal != nil {
		found = []problems.Problem{*refusal}
	} else {
		found = p.lint(options)
	}
	return problems.About(problems.Object{Group: "linkerd.io", Kind: "ServiceProfile", Namespace: p.Namespace, Name: p.Name}, found)
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	duplicateKey = regexp.MustCompile(`key "([^"]*)" already set in map`)
	wrongType    = regexp.MustCompile(`cannot unmarshal .* into Go (?:struct field \w+\.([\w.]+) of type|value of type) (.*)$`)
)

// decodeProblem names the field of an error of the YAML decoder, which has it only in its text.
func decodeProblem(err error) *problems.Problem {
	text := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: ")
	text = strings.TrimPrefix(text, "while decoding JSON: ")
	text = strings.TrimPrefix(text, "json: ")
	switch {
	case unknownField.MatchString(text):
		name := unknownField.FindStringSubmatch(text)[1]
		return &problems.Problem{Field: name, Message: "unknown field", Severity: problems.Error}
	case duplicateKey.MatchString(text):
		name := duplicateKey.FindStringSubmatch(text)[1]
		return &problems.Problem{Field: name, Message: "field given twice", Severity: problems.Error}
	case wrongType.MatchString(text):
		match := wrongType.FindStringSubmatch(text)
		if strings.HasPrefix(match[2], "uint32") && match[1] == "" {
			match[1] = "spec.opaquePorts" // the only map
		}
		return &problems.Problem{Field: match[1], Message: "wrong type: " + text, Severity: problems.Error}
	}
	return &problems.Problem{Message: "no ServiceProfile: " + text, Severity: problems.Error}
}

// check does Linkerd's checks in Linkerd's order.
func (p *profile) check() *problems.Problem {
	if wrong := validation.IsDNS1123Subdomain(p.Name); len(wrong) > 0 {
		return problems.At(field.NewPath("metadata", "name"), "%q: %s", p.Name, wrong[0])
	}
	spec := field.NewPath("spec")
	for i, route := range p.Spec.Routes {
		if err := route.check(spec.Child("routes").Index(i)); err != nil {
			return err
		}
	}
	return p.Spec.RetryBudget.check(spec.Child("retryBudget"))
}

func (r *route) check(at *field.Path) *problems.Problem {
	if r == nil {
		return problems.At(at, "the route is null")
	}
	if r.Name == "" {
		return problems.At(at.Child("name"), "the route has no name")
	}
	if r.Timeout != "" {
		if _, err := time.ParseDuration(r.Timeout); err != nil {
			return problems.At(at.Child("timeout"), "route %q: %v", r.Name, err)
		}
	}
	if r.Condition == nil {
		return problems.At(at.Child("condition"), "route %q has no condition", r.Name)
	}
	if err := r.Condition.check(at.Child("condition")); err != nil {
		return err
	}
	for i, class := range r.ResponseClasses {
		at := at.Child("responseClasses").Index(i)
		if class == nil {
			return problems.At(at, "the response class is null")
		}
		if class.Condition == nil {
			return problems.At(at.Child("condition"), "the response class has no condition")
		}
		if err := class.Condition.check(at.Child("condition")); err != nil {
			return err
		}
	}
	return nil
}

// checkEach returns the first problem that one of the children has.
func checkEach[M interface {
	check(*field.Path) *problems.Problem
}](at *field.Path, children []M) *problems.Problem {
	for i, child := range children {
		if err := child.check(at.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (m *requestMatch) check(at *field.Path) *problems.Problem {
	if m == nil {
		return problems.At(at, "the condition is null")
	}
	if m.All == nil && m.Any == nil && m.Method == "" && m.Not == nil && m.PathRegex == "" {
		return problems.At(at, "one of all, any, method, not and pathRegex must be set")
	}
	if err := checkEach(at.Child("all"), m.All); err != nil {
		return err
	}
	if err := checkEach(at.Child("any"), m.Any); err != nil {
		return err
	}
	if m.Not != nil {
		return m.Not.check(at.Child("not"))
	}
	return nil
}

func (m *responseMatch) check(at *field.Path) *problems.Problem {
	if m == nil {
		return problems.At(at, "the condition is null")
	}
	if m.All == nil && m.Any == nil && m.Status == nil && m.Not == nil {
		return problems.At(at, "one of all, any, status and not must be set")
	}
	if err := checkEach(at.Child("all"), m.All); err != nil {
		return err
	}
	if err := checkEach(at.Child("any"), m.Any); err != nil {
		return err
	}
	if m.Status != nil {
		if err := m.Status.check(at.Child("status")); err != nil {
			return err
		}
	}
	if m.Not != nil {
		return m.Not.check(at.Child("not"))
	}
	return nil
}

// check treats zero as absent.
func (r *statusRange) check(at *field.Path) *problems.Problem {
	switch {
	case r.Min != 0 && (r.Min < minStatus || r.Min > maxStatus):
		return problems.At(at.Child("min"), "the minimum %d is not within %d to %d", r.Min, minStatus, maxStatus)
	case r.Max != 0 && (r.Max < minStatus || r.Max > maxStatus):
		return problems.At(at.Child("max"), "the maximum %d is not within %d to %d", r.Max, minStatus, maxStatus)
	case r.Min != 0 && r.Max != 0 && r.Max < r.Min:
		return problems.At(at.Child("max"), "the maximum %d is below the minimum %d", r.Max, r.Min)
	}
	return nil
}

func (b *retryBudget) check(at *field.Path) *problems.Problem {
	if b == nil {
		return nil
	}
	if b.RetryRatio < 0 {
		return problems.At(at.Child("retryRatio"), "%f is negative", b.RetryRatio)
	}
	if b.TTL == "" {
		return problems.At(at.Child("ttl"), "missing")
	}
	if _, err := time.ParseDuration(b.TTL); err != nil {
		return problems.At(at.Child("ttl"), "%v", err)
	}
	return nil
}
