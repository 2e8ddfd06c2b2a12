package validator

import (
	"regexp/syntax"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Outside these, a proxy drops the whole budget.
const (
	minTTL = time.Second
	maxTTL = time.Minute
)

// linter collects warnings (B40).
type linter struct{ warnings []problems.Problem }

func (l *linter) warn(at *field.Path, format string, args ...any) {
	l.warnings = append(l.warnings, problems.Odd(at, format, args...))
}

// lint looks for what is valid and cannot work. The profile has passed check.
func (p *profile) lint(options Options) []problems.Problem {
	var l linter
	l.name(p.Name, options)
	spec := field.NewPath("spec")
	for i, route := range p.Spec.Routes {
		at := spec.Child("routes").Index(i)
		if timeout, err := time.ParseDuration(route.Timeout); err == nil && timeout < 0 {
			l.warn(at.Child("timeout"), "%q is negative", route.Timeout)
		}
		l.condition(at.Child("condition"), route.Condition)
	}
	if budget := p.Spec.RetryBudget; budget != nil {
		at := spec.Child("retryBudget", "ttl")
		if ttl, err := time.ParseDuration(budget.TTL); err == nil && ttl < 0 {
			l.warn(at, "%q is negative", budget.TTL)
		} else if err == nil && (ttl < minTTL || ttl > maxTTL) {
			l.warn(at, "%q is not within %v to %v: proxies ignore the budget", budget.TTL, minTTL, maxTTL)
		}
	}
	return l.warnings
}

func (l *linter) name(name string, options Options) {
	at := field.NewPath("metadata", "name")
	service, ok := strings.CutSuffix(name, ".svc."+options.ClusterDomain)
	labels := strings.Split(service, ".")
	if !ok || len(labels) != 2 {
		l.warn(at, "%q is not the name of a service, which is <service>.<namespace>.svc.%s", name, options.ClusterDomain)
		return
	}
	if options.ServiceExists != nil && !options.ServiceExists(labels[1], labels[0]) {
		l.warn(at, "there is no Service %s/%s", labels[1], labels[0])
	}
}

func (l *linter) condition(at *field.Path, match *requestMatch) {
	if match == nil {
		return
	}
	// Compiling writes repetitions out: (?:a{10}){100} is 1,000 times as long as a.
	if _, err := syntax.Parse(match.PathRegex, syntax.Perl); err != nil {
		l.warn(at.Child("pathRegex"), "%q does not compile: %v", match.PathRegex, err)
	}
	for i, child := range match.All {
		l.condition(at.Child("all").Index(i), child)
	}
	for i, child := range match.Any {
		l.condition(at.Child("any").Index(i), child)
	}
	l.condition(at.Child("not"), match.Not)
}
