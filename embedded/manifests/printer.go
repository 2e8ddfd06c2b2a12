package manifests

import (
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

const (
	// maxLines is how many steps of a plan are printed one by one.
	maxLines = 20
	// faultAge is how long a fault must last before it is printed: editors and
	// checkouts pass through states that nobody wants to read about.
	faultAge = 250 * time.Millisecond
)

// printer writes for the user what happens, and each fault once while it lasts.
type printer struct {
	out   io.Writer
	now   func() time.Time
	since map[string]time.Time
	told  map[string]bool
	// warned and noticed live as long as the process: warnings come again with every apply.
	warned  map[string]bool
	noticed map[schema.GroupKind]bool
	polled  string
	// planned says that a plan was printed whose result was not.
	planned bool
}

func newPrinter(out io.Writer, now func() time.Time) *printer {
	return &printer{
		out: out, now: now, since: map[string]time.Time{}, told: map[string]bool{},
		warned: map[string]bool{}, noticed: map[schema.GroupKind]bool{},
	}
}

func (p *printer) line(format string, args ...any) {
	// There is nobody to tell if the terminal is gone.
	_, _ = fmt.Fprintf(p.out, "manifests: %s\n", printable.Text(fmt.Sprintf(format, args...)))
}

// plan prints what is about to be done, if anything is.
func (p *printer) plan(made *plan.Plan) {
	for _, w := range made.Warnings {
		p.warning(w)
	}
	// A retry is no news before it succeeds.
	if !slices.ContainsFunc(slices.Concat(made.Apply, made.Prune), func(s plan.Step) bool { return !s.Again }) {
		return
	}
	p.planned = true
	p.line("%s", made.Counts())
	lines := 0
	for _, steps := range [][]plan.Step{made.Apply, made.Prune} {
		for _, s := range steps {
			if lines++; lines <= maxLines {
				_, _ = fmt.Fprintf(p.out, "  %s\n", printable.Text(s.String()))
			}
		}
	}
	if lines > maxLines {
		_, _ = fmt.Fprintf(p.out, "  … and %d more\n", lines-maxLines)
	}
}

// result prints what was done, and the faults that have lasted, or all with
// flush. While the directory itself may still put them right (coming), it is more patient.
// It returns when it wants to be asked again; zero: when something changes.
func (p *printer) result(done tally, faults, waiting, notices []problems.Problem, flush, coming bool) (due time.Time) {
	if done.applied > 0 || done.pruned > 0 || p.planned {
		failed := ""
		if len(done.failed) > 0 {
			failed = fmt.Sprintf(", %d failed", len(done.failed))
		}
		p.line("%d applied, %d pruned%s in %s", done.applied, done.pruned, failed, done.took.Round(time.Millisecond))
		p.planned = false
	}
	current := map[string]bool{}
	age := faultAge
	if coming {
		age = 2 * time.Second
	}
	now := p.now()
	show := func(kind string, f problems.Problem) {
		text := kind + ": " + source.Text(f)
		current[text] = true
		if p.told[text] {
			return
		}
		if _, ok := p.since[text]; !ok {
			p.since[text] = now
		}
		if at := p.since[text].Add(age); now.Before(at) && !flush {
			if due.IsZero() || at.Before(due) {
				due = at
			}
			return
		}
		p.told[text] = true
		p.line("%s", text)
	}
	for _, f := range faults {
		show("error", f)
	}
	for _, f := range waiting {
		show("waiting", f)
	}
	for _, f := range notices {
		show("warning", f)
	}
	had := len(p.told)
	for text := range p.since {
		if !current[text] {
			delete(p.since, text)
			delete(p.told, text)
		}
	}
	if had > 0 && len(p.told) == 0 {
		p.line("no errors left")
	}
	return due
}

func (p *printer) warning(f problems.Problem) {
	if text := source.Text(f); !p.warned[text] {
		p.warned[text] = true
		p.line("warning: %s", text)
	}
}

func (p *printer) ignoredStatus(s plan.Step, owner string) {
	gk := s.Object.GroupKind()
	if p.noticed[gk] {
		return
	}
	p.noticed[gk] = true
	p.line("the status of %s objects, first in %s, is left out: %s writes it", source.KindName(gk), s.File, owner)
}

func (p *printer) polling(why string, every time.Duration) {
	if why != p.polled {
		p.polled = why
		p.line("%s: looking for changes every %s instead", why, every)
	}
}

func (p *printer) drift(fresh []Drift) {
	for i, d := range fresh {
		if i == maxLines {
			p.line("drift: … and %d more", len(fresh)-maxLines)
			break
		}
		advice := ""
		if d.putBack {
			advice = "; save the file to put it back"
		}
		p.line("drift: %s%s", d, advice)
	}
}
