package validator

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const (
	minStatus = 100
	maxStatus = 599
)

// Problem is something wrong with a field.
type Problem struct {
	// Field is a path such as spec.routes[0].timeout, or empty if the object is no ServiceProfile at all.
	Field   string
	Message string
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// Options are what the check knows beside the object.
type Options struct {
	// ClusterDomain is the DNS domain of Services.
	ClusterDomain string
	// ServiceExists tells whether there is a Service. If nil, it is not asked.
	ServiceExists func(namespace, name string) bool
}

// Result is what the check found. A profile with a problem is denied; one with warnings is not.
type Result struct {
	// Name of the profile, as far as it decodes.
	Name string
	// Problem is the first one in the order of Linkerd's checks, nil if there is none.
	Problem *Problem
	// Warnings are things that Linkerd lets through though they cannot work.
	Warnings []Problem
}

// Validate checks a ServiceProfile given as JSON or YAML. It keeps nothing of its arguments.
func Validate(object []byte, options Options) Result {
	var p profile
	if err := yaml.UnmarshalStrict(object, &p); err != nil {
		return Result{Name: p.Name, Problem: decodeProblem(err)}
	}
	result := Result{Name: p.Name}
	if err := p.check(); err != nil {
		result.Problem = err
		return result
	}
	result.Warnings = p.lint(options)
	return result
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	duplicateKey = regexp.MustCompile(`key "([^"]*)" already set in map`)
	wrongType    = regexp.MustCompile(`cannot unmarshal .* into Go (?:struct field \w+\.([\w.]+) of type|value of type) (.*)$`)
)

// decodeProblem names the field of an error of the YAML decoder, which has it only in its text.
func decodeProblem(err error) *Problem {
	text := strings.TrimPrefix(err.Error(), "error unmarshaling JSON: ")
	text = strings.TrimPrefix(text, "while decoding JSON: ")
	text = strings.TrimPrefix(text, "json: ")
	switch {
	case unknownField.MatchString(text):
		name := unknownField.FindStringSubmatch(text)[1]
		return &Problem{Field: name, Message: "unknown field"}
	case duplicateKey.MatchString(text):
		name := duplicateKey.FindStringSubmatch(text)[1]
		return &Problem{Field: name, Message: "field given twice"}
	case wrongType.MatchString(text):
		match := wrongType.FindStringSubmatch(text)
		if strings.HasPrefix(match[2], "uint32") && match[1] == "" {
			match[1] = "spec.opaquePorts" // the only map
		}
		return &Problem{Field: match[1], Message: "wrong type: " + text}
	}
	return &Problem{Message: "no ServiceProfile: " + text}
}

// check does Linkerd's checks in Linkerd's order.
func (p *profile) check() *Problem {
	if problems := validation.IsDNS1123Subdomain(p.Name); len(problems) > 0 {
		return problem(field.NewPath("metadata", "name"), "%q: %s", p.Name, problems[0])
	}
	spec := field.NewPath("spec")
	for i, route := range p.Spec.Routes {
		if err := route.check(spec.Child("routes").Index(i)); err != nil {
			return err
		}
	}
	return p.Spec.RetryBudget.check(spec.Child("retryBudget"))
}

func (r *route) check(at *field.Path) *Problem {
	if r == nil {
		return problem(at, "the route is null")
	}
	if r.Name == "" {
		return problem(at.Child("name"), "the route has no name")
	}
	if r.Timeout != "" {
		if _, err := time.ParseDuration(r.Timeout); err != nil {
			return problem(at.Child("timeout"), "route %q: %v", r.Name, err)
		}
	}
	if r.Condition == nil {
		return problem(at.Child("condition"), "route %q has no condition", r.Name)
	}
	if err := r.Condition.check(at.Child("condition")); err != nil {
		return err
	}
	for i, class := range r.ResponseClasses {
		at := at.Child("responseClasses").Index(i)
		if class == nil {
			return problem(at, "the response class is null")
		}
		if class.Condition == nil {
			return problem(at.Child("condition"), "the response class has no condition")
		}
		if err := class.Condition.check(at.Child("condition")); err != nil {
			return err
		}
	}
	return nil
}

// checkEach returns the first problem that one of the children has.
func checkEach[M interface{ check(*field.Path) *Problem }](at *field.Path, children []M) *Problem {
	for i, child := range children {
		if err := child.check(at.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (m *requestMatch) check(at *field.Path) *Problem {
	if m == nil {
		return problem(at, "the condition is null")
	}
	if m.All == nil && m.Any == nil && m.Method == "" && m.Not == nil && m.PathRegex == "" {
		return problem(at, "one of all, any, method, not and pathRegex must be set")
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

func (m *responseMatch) check(at *field.Path) *Problem {
	if m == nil {
		return problem(at, "the condition is null")
	}
	if m.All == nil && m.Any == nil && m.Status == nil && m.Not == nil {
		return problem(at, "one of all, any, status and not must be set")
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
func (r *statusRange) check(at *field.Path) *Problem {
	switch {
	case r.Min != 0 && (r.Min < minStatus || r.Min > maxStatus):
		return problem(at.Child("min"), "the minimum %d is not within %d to %d", r.Min, minStatus, maxStatus)
	case r.Max != 0 && (r.Max < minStatus || r.Max > maxStatus):
		return problem(at.Child("max"), "the maximum %d is not within %d to %d", r.Max, minStatus, maxStatus)
	case r.Min != 0 && r.Max != 0 && r.Max < r.Min:
		return problem(at.Child("max"), "the maximum %d is below the minimum %d", r.Max, r.Min)
	}
	return nil
}

func (b *retryBudget) check(at *field.Path) *Problem {
	if b == nil {
		return nil
	}
	if b.RetryRatio < 0 {
		return problem(at.Child("retryRatio"), "%f is negative", b.RetryRatio)
	}
	if b.TTL == "" {
		return problem(at.Child("ttl"), "missing")
	}
	if _, err := time.ParseDuration(b.TTL); err != nil {
		return problem(at.Child("ttl"), "%v", err)
	}
	return nil
}

func problem(at *field.Path, format string, args ...any) *Problem {
	return &Problem{Field: at.String(), Message: fmt.Sprintf(format, args...)}
}
