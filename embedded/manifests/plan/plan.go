package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Action is what a step does.
type Action string

// The actions. Restore and release are what prune means for objects that exist
// without the directory: they get back what they were, or lose what manifests gave them.
const (
	Apply   Action = "apply"
	Prune   Action = "prune"
	Restore Action = "restore"
	Release Action = "release"
)

// Step is one change to one object. It is an immutable value.
type Step struct {
	Action Action     `json:"action"`
	Object source.Key `json:"object"`
	File   string     `json:"file"`
	Line   int        `json:"line,omitempty"`
	// Why is empty where the action says it all.
	Why string `json:"why,omitempty"`

	GVK schema.GroupVersionKind `json:"-"`
	// Path is the absolute one of the source.
	Path string `json:"-"`
	// Manifest is the object as it is written, Hash its hash.
	Manifest *unstructured.Unstructured `json:"-"`
	Hash     string                     `json:"-"`
	Kind     Kind                       `json:"-"`
	// Manager is the one for which an object is restored.
	Manager string `json:"-"`
	// Before is the zero value for a new object.
	Before Record `json:"-"`
	// Again says that it failed before, and nothing was changed since.
	Again bool `json:"-"`
}

// Plan is the difference between the directories and the inventory. It is an
// immutable value.
type Plan struct {
	// Apply and Prune are in the order of execution.
	Apply []Step `json:"apply"`
	Prune []Step `json:"prune"`
	// Held are prunes that wait, with the reason.
	Held []Step `json:"held,omitempty"`
	// Waiting are objects whose kind or namespace does not exist yet, Failed
	// everything else that is wrong.
	Waiting   []problems.Problem `json:"waiting,omitempty"`
	Failed    []problems.Problem `json:"failed,omitempty"`
	Unchanged int                `json:"unchanged"`
	// Warnings are remarks of Config.Check on what is applied.
	Warnings []problems.Problem `json:"warnings,omitempty"`
	// Notices are what the user should know as long as it is so.
	Notices []problems.Problem `json:"notices,omitempty"`

	// Moved are records that only change their file.
	Moved []Record `json:"-"`
	// Retry is when to plan again though nothing changes; zero: never.
	Retry time.Time `json:"-"`
	// Coming counts those waiting or failing that this directory itself should put right soon.
	Coming int `json:"-"`
	// Stuck are those of Waiting that nothing in this directory helps.
	Stuck []problems.Problem `json:"-"`
	// Foreign counts records of directories that are not among those of this run.
	Foreign int `json:"-"`
	// Total counts the objects of all directories.
	Total int `json:"-"`
}

// Counts is a line such as "2 to apply, 1 to prune, 1003 unchanged, 0 failed".
func (p *Plan) Counts() string {
	s := fmt.Sprintf("%d to apply, %d to prune, %d unchanged, %d failed", len(p.Apply), len(p.Prune), p.Unchanged, len(p.Failed))
	if len(p.Waiting) > 0 {
		s += fmt.Sprintf(", %d waiting", len(p.Waiting))
	}
	return s
}

// String is the counts and a line per step and fault.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString(p.Counts())
	b.WriteByte('\n')
	for _, steps := range [][]Step{p.Apply, p.Prune} {
		for _, s := range steps {
			fmt.Fprintf(&b, "  %s\n", printable.Text(s.String()))
		}
	}
	for _, s := range p.Held {
		fmt.Fprintf(&b, "  keep     %s\n", printable.Text(fmt.Sprintf("%s  (%s: %s)", s.Object, s.File, s.Why)))
	}
	for _, f := range slices.Concat(p.Notices, p.Warnings) {
		fmt.Fprintf(&b, "  warning  %s\n", printable.Text(source.Text(f)))
	}
	for _, f := range p.Waiting {
		fmt.Fprintf(&b, "  waiting  %s\n", printable.Text(source.Text(f)))
	}
	for _, f := range p.Failed {
		fmt.Fprintf(&b, "  failed   %s\n", printable.Text(source.Text(f)))
	}
	return b.String()
}

func (s Step) String() string {
	at := s.File
	if s.Line > 0 {
		at = fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	if s.Why != "" {
		at += ": " + s.Why
	}
	return fmt.Sprintf("%-8s %s  (%s)", s.Action, s.Object, at)
}

// Failure is a step that did not succeed, and when to try it again. It is a value.
type Failure struct {
	Hash  string
	Fault problems.Problem
	// Line is that of the object when it failed.
	Line int
	// Namespace is set if it is what the object lacks.
	Namespace string
	Transient bool
	Attempts  int
	Next      time.Time
	Since     time.Time
}

// Base is an object that another part keeps in the API server, such as a built-in
// CRD.
type Base struct {
	Object *unstructured.Unstructured
	// FieldManager is that part's; a restored object is as if it had written it.
	FieldManager string
}

// Input is all that a plan depends on, read before.
type Input struct {
	Now     time.Time
	Sources []*source.Source
	// Faults and Notices are of no source.
	Faults   []problems.Problem
	Notices  []problems.Problem
	Records  map[source.Key]Record
	Failures map[source.Key]Failure
	// Kinds are those of the sources that can be applied now; Unknown has the words for the others.
	Kinds   map[schema.GroupVersionKind]Kind
	Unknown map[schema.GroupVersionKind]string
	// Places are those of the files of Records.
	Places map[string]source.Place
	// Leaving are namespaces that were deleted and still exist.
	Leaving map[source.Key]bool
	// Base are the objects that exist without the directory.
	Base map[source.Key]Base
	// Owned is what the program keeps itself of the objects of Sources and Records.
	Owned map[source.Key]Ownership
}

// place is where an object is written.
type place struct {
	source *source.Source
	object source.Object
	key    source.Key
	kind   Kind
	known  bool
}

// Make compares the directories with the records. It has no effects.
//
//  1. Each object gets its key: the namespace is filled in, or dropped, by the kind's
//     scope. One that is written twice keeps the file that it was applied from,
//     otherwise the first; the other is a fault.
//  2. Objects whose hash is that of their record are unchanged, and moved if the
//     file is another. The rest is applied, unless it failed a moment ago.
//  3. Records without an object are pruned, if their file allows it.
func Make(in Input) *Plan {
	p := &Plan{Failed: slices.Clone(in.Faults), Notices: slices.Clone(in.Notices)}
	desired, coming := p.collect(in)
	for _, key := range slices.SortedFunc(maps.Keys(desired), source.CompareKeys) {
		p.decide(in, desired[key], coming)
	}
	p.prune(in, desired)
	for _, steps := range [][]Step{p.Apply, p.Prune} {
		slices.SortStableFunc(steps, func(a, b Step) int { return a.Wave() - b.Wave() })
	}
	return p
}

// provided is what the directory itself brings.
type provided struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

func (p *Plan) collect(in Input) (map[source.Key]place, provided) {
	desired := map[source.Key]place{}
	coming := provided{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, src := range in.Sources {
		if !src.Alien {
			p.Failed = append(p.Failed, src.Faults...)
		}
		var left []source.Key
		for _, object := range src.Objects {
			p.Total++
			at := place{source: src, object: object, key: object.Key()}
			at.kind, at.known = in.Kinds[object.Unstructured.GroupVersionKind()]
			at.key = Scoped(at.key, at.kind, at.known)
			if in.Owned[at.key] == Exclusive {
				left = append(left, at.key)
				continue
			}
			switch at.key.GroupKind() {
			case NamespaceKind:
				coming.namespaces[at.key.Name] = true
			case CRDKind:
				if gk, ok := DefinedKind(object.Unstructured); ok {
					coming.kinds[gk] = true
				}
			}
			other, twice := desired[at.key]
			if !twice {
				desired[at.key] = at
				continue
			}
			keep, refuse := other, at
			if in.Records[at.key].File == at.source.Path && other.source.Path != at.source.Path {
				keep, refuse = at, other
			}
			desired[at.key] = keep
			p.Failed = append(p.Failed, problems.Problem{
				File: refuse.source.Shown, Line: refuse.object.Line, Object: at.key.Object(),
				Message: fmt.Sprintf("also defined at %s, which is the one that counts", problems.Problem{File: keep.source.Shown, Line: keep.object.Line}.Place()),
			})
		}
		p.leaveAlone(src, left)
	}
	return desired, coming
}

// Scoped is a key with the namespace filled in, or dropped, by the scope of its kind.
func Scoped(key source.Key, kind Kind, known bool) source.Key {
	switch {
	case !known:
	case !kind.Namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = "default"
	}
	return key
}

func (p *Plan) decide(in Input, at place, coming provided) {
	gvk := at.object.Unstructured.GroupVersionKind()
	shown := problems.Problem{File: at.source.Shown, Line: at.object.Line, Object: at.key.Object()}
	if !at.known {
		shown.Message = in.Unknown[gvk]
		p.Waiting = append(p.Waiting, shown)
		if coming.kinds[gvk.GroupKind()] {
			p.Coming++
		} else {
			p.Stuck = append(p.Stuck, shown)
		}
		return
	}
	if ns := at.key.Namespace; ns != "" && in.Leaving[source.Key{Kind: NamespaceKind.Kind, Name: ns}] {
		shown.Message = fmt.Sprintf("namespace %q is being deleted; the object is applied when it exists again", ns)
		p.Waiting = append(p.Waiting, shown)
		return
	}
	record, recorded := in.Records[at.key]
	hash := at.object.Hash
	if recorded && record.Hash == hash {
		p.Unchanged++
		if record.File != at.source.Path {
			record.File = at.source.Path
			p.Moved = append(p.Moved, record)
		}
		return
	}
	failed, again := in.Failures[at.key]
	again = again && failed.Hash == hash
	if again && in.Now.Before(failed.Next) {
		failed.Fault.File = at.source.Shown
		failed.Fault.Line += at.object.Line - failed.Line
		if failed.Namespace != "" {
			p.Waiting = append(p.Waiting, failed.Fault)
			if coming.namespaces[failed.Namespace] {
				p.Coming++
			}
		} else {
			p.Failed = append(p.Failed, failed.Fault)
			if failed.Transient {
				p.Coming++
			}
		}
		p.retryAt(failed.Next)
		return
	}
	p.Apply = append(p.Apply, Step{
		Action: Apply, Object: at.key, File: at.source.Shown, Line: at.object.Line,
		GVK: gvk, Path: at.source.Path, Manifest: at.object.Unstructured, Hash: hash, Kind: at.kind, Before: record, Again: again,
	})
}

func (p *Plan) prune(in Input, desired map[source.Key]place) {
	// An object of a kind that is not known now may be one of any namespace.
	loose := map[source.Key]bool{}
	for key, at := range desired {
		if !at.known {
			loose[source.Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] = true
		}
	}
	emptied := map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(in.Records), source.CompareKeys) {
		if _, wanted := desired[key]; wanted || loose[source.Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] {
			continue
		}
		record := in.Records[key]
		place := in.Places[record.File]
		if place.Foreign {
			p.Foreign++
			continue
		}
		step := Step{
			Action: Prune, Object: key, File: place.Shown, Path: record.File, Before: record,
			GVK: key.GroupKind().WithVersion(record.Version),
		}
		if base, ok := in.Base[key]; ok {
			step.Action, step.Manifest, step.Manager, step.GVK = Restore, base.Object, base.FieldManager, base.Object.GroupVersionKind()
		} else if undeletable(key) || in.Owned[key] != Free {
			step.Action = Release
		}
		if place.Empty != "" {
			emptied[place.Empty]++
			step.Why = place.Empty + " has no objects any more"
			p.Held = append(p.Held, step)
			continue
		}
		if why := p.hold(in, record, place); why != "" {
			step.Why = why
			p.Held = append(p.Held, step)
			continue
		}
		failed, again := in.Failures[key]
		step.Again = again && failed.Hash == ""
		if step.Again && in.Now.Before(failed.Next) {
			p.Failed = append(p.Failed, failed.Fault)
			p.retryAt(failed.Next)
			continue
		}
		p.Prune = append(p.Prune, step)
	}
	for _, shown := range slices.Sorted(maps.Keys(emptied)) {
		p.Notices = append(p.Notices, problems.Problem{File: shown, Message: fmt.Sprintf(
			"no objects are left here, and the %d that came from here stay as they are: put the files back, or start again with --prune-empty to delete what they had", emptied[shown])})
	}
}

// hold says why a record that no file has may not be pruned now.
func (p *Plan) hold(in Input, record Record, place source.Place) string {
	if place.Held != "" {
		return place.Held
	}
	for _, src := range in.Sources {
		if len(src.Faults) == 0 {
			continue
		}
		if src.Path == record.File {
			return "its file cannot be read as a manifest"
		}
		if !src.Alien && src.Mentions(record.Name) {
			return "it may have moved to " + src.Shown + ", which cannot be read as a manifest"
		}
	}
	if due := place.Changed.Add(source.SettleTime); in.Now.Before(due) {
		p.retryAt(due)
		return "its file changed less than a second ago"
	}
	return ""
}

func (p *Plan) retryAt(t time.Time) {
	if p.Retry.IsZero() || t.Before(p.Retry) {
		p.Retry = t
	}
}
