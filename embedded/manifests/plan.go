package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settleTime is how long a file must have been unchanged before what went
// from it is deleted.
const settleTime = time.Second

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
	Action Action `json:"action"`
	Object Key    `json:"object"`
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	// Why is empty where the action says it all.
	Why string `json:"why,omitempty"`

	gvk    schema.GroupVersionKind
	path   string
	object *unstructured.Unstructured
	hash   string
	kind   kind
	// manager is the one for which an object is restored.
	manager string
	before  Record // the zero value for a new object
	again   bool   // it failed before, and nothing was changed since
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
	Waiting   []Fault `json:"waiting,omitempty"`
	Failed    []Fault `json:"failed,omitempty"`
	Unchanged int     `json:"unchanged"`
	// Warnings are remarks of Config.Check on what is applied.
	Warnings []Fault `json:"warnings,omitempty"`
	// Notices are what the user should know as long as it is so.
	Notices []Fault `json:"notices,omitempty"`

	// moved are records that only change their file.
	moved []Record
	// retry is when to plan again though nothing changes; zero: never.
	retry time.Time
	// coming counts those waiting or failing that this directory itself should put right soon.
	coming int
	// stuck are those of Waiting that nothing in this directory helps.
	stuck []Fault
	// foreign counts records of directories that are not among those of this run.
	foreign int
	total   int
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
			fmt.Fprintf(&b, "  %s\n", s)
		}
	}
	for _, s := range p.Held {
		fmt.Fprintf(&b, "  keep     %s  (%s: %s)\n", s.Object, s.File, s.Why)
	}
	for _, f := range slices.Concat(p.Notices, p.Warnings) {
		fmt.Fprintf(&b, "  warning  %v\n", f)
	}
	for _, f := range p.Waiting {
		fmt.Fprintf(&b, "  waiting  %v\n", f)
	}
	for _, f := range p.Failed {
		fmt.Fprintf(&b, "  failed   %v\n", f)
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

// failure is a step that did not succeed, and when to try it again.
type failure struct {
	hash  string
	fault Fault
	// line is that of the object when it failed.
	line int
	// namespace is set if it is what the object lacks.
	namespace string
	transient bool
	attempts  int
	next      time.Time
	since     time.Time
}

// state is all that a plan depends on.
type state struct {
	now      time.Time
	sources  []*Source
	faults   []Fault
	records  map[Key]Record
	failures map[Key]failure
	// kind, and unknown for the words when there is none.
	kind    func(schema.GroupVersionKind) (kind, bool)
	unknown func(schema.GroupVersionKind) string
	// foreign says that a path belongs to no directory of this run, whose objects
	// are none of its business; held says why nothing from a path may be
	// deleted now, or is empty.
	foreign func(path string) bool
	held    func(path string) string
	changed func(path string) time.Time
	// empty is the directory or kustomization that path belongs to if that has no object
	// now, as the user would write it.
	empty func(path string) string
	// leaving says of an object that it was pruned and still exists.
	leaving func(Key) bool
	// base are the objects that exist without the directory.
	base map[Key]Base
	// check is run on what is to be applied, and fieldLine finds the line of a
	// field in which it sees a problem, in the object that begins on line.
	check     func(*unstructured.Unstructured) []Problem
	fieldLine func(path string, line int, field string) int
}

// place is where an object is written.
type place struct {
	source *Source
	object Object
	key    Key
	kind   kind
	known  bool
}

// makePlan compares the directories with the records. It has no effects.
//
//  1. Each object gets its key: the namespace is filled in, or dropped, by the kind's
//     scope. One that is written twice keeps the file that it was applied from,
//     otherwise the first; the other is a fault.
//  2. Objects whose hash is that of their record are unchanged, and moved if the
//     file is another. The rest is applied, unless it failed a moment ago.
//  3. Records without an object are pruned, if their file allows it.
func makePlan(s state) *Plan {
	p := &Plan{Failed: slices.Clone(s.faults)}
	desired, coming := p.collect(s)
	for _, key := range slices.SortedFunc(maps.Keys(desired), compareKeys) {
		p.decide(s, desired[key], coming)
	}
	p.prune(s, desired)
	slices.SortStableFunc(p.Apply, func(a, b Step) int { return wave(a.Object) - wave(b.Object) })
	slices.SortStableFunc(p.Prune, func(a, b Step) int { return wave(b.Object) - wave(a.Object) })
	return p
}

// provided is what the directory itself brings.
type provided struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

func (p *Plan) collect(s state) (map[Key]place, provided) {
	desired := map[Key]place{}
	coming := provided{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, source := range s.sources {
		p.Failed = append(p.Failed, source.Faults...)
		for _, object := range source.Objects {
			p.total++
			at := place{source: source, object: object, key: object.key()}
			at.kind, at.known = s.kind(object.Unstructured.GroupVersionKind())
			if at.known && s.leaving(crdKey(at.kind)) {
				at.known = false
			}
			at.key = scoped(at)
			switch at.key.GroupKind() {
			case namespaceKind:
				coming.namespaces[at.key.Name] = true
			case crdKind:
				if gk, ok := definedKind(object.Unstructured); ok {
					coming.kinds[gk] = true
				}
			}
			other, twice := desired[at.key]
			if !twice {
				desired[at.key] = at
				continue
			}
			keep, refuse := other, at
			if s.records[at.key].File == at.source.Path && other.source.Path != at.source.Path {
				keep, refuse = at, other
			}
			desired[at.key] = keep
			p.Failed = append(p.Failed, Fault{
				File: refuse.source.Shown, Line: refuse.object.Line, Object: at.key.String(),
				Message: fmt.Sprintf("also defined at %s, which is the one that counts", location(keep.source.Shown, keep.object.Line)),
			})
		}
	}
	return desired, coming
}

func location(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

func scoped(at place) Key {
	key := at.key
	switch {
	case !at.known:
	case !at.kind.namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = "default"
	}
	return key
}

func (p *Plan) decide(s state, at place, coming provided) {
	gvk := at.object.Unstructured.GroupVersionKind()
	shown := Fault{File: at.source.Shown, Line: at.object.Line, Object: at.key.String()}
	if !at.known {
		shown.Message = s.unknown(gvk)
		p.Waiting = append(p.Waiting, shown)
		if coming.kinds[gvk.GroupKind()] {
			p.coming++
		} else {
			p.stuck = append(p.stuck, shown)
		}
		return
	}
	if ns := at.key.Namespace; ns != "" && s.leaving(Key{Kind: namespaceKind.Kind, Name: ns}) {
		shown.Message = fmt.Sprintf("namespace %q is being deleted; the object is applied when it exists again", ns)
		p.Waiting = append(p.Waiting, shown)
		return
	}
	record, recorded := s.records[at.key]
	hash := at.object.Hash
	if recorded && record.Hash == hash {
		p.Unchanged++
		if record.File != at.source.Path {
			record.File = at.source.Path
			p.moved = append(p.moved, record)
		}
		return
	}
	failed, again := s.failures[at.key]
	again = again && failed.hash == hash
	if again && s.now.Before(failed.next) {
		failed.fault.File = at.source.Shown
		failed.fault.Line += at.object.Line - failed.line
		if failed.namespace != "" {
			p.Waiting = append(p.Waiting, failed.fault)
			if coming.namespaces[failed.namespace] {
				p.coming++
			}
		} else {
			p.Failed = append(p.Failed, failed.fault)
			if failed.transient {
				p.coming++
			}
		}
		p.retryAt(failed.next)
		return
	}
	refused := false
	for _, problem := range s.check(at.object.Unstructured) {
		shown := shown
		shown.Line = s.fieldLine(at.source.Path, at.object.Line, problem.Field)
		shown.Message = oneLine(problem.Message)
		if problem.Warning {
			p.Warnings = append(p.Warnings, shown)
			continue
		}
		refused = true
		p.Failed = append(p.Failed, shown)
	}
	if refused {
		return
	}
	p.Apply = append(p.Apply, Step{
		Action: Apply, Object: at.key, File: at.source.Shown, Line: at.object.Line,
		gvk: gvk, path: at.source.Path, object: at.object.Unstructured, hash: hash, kind: at.kind, before: record, again: again,
	})
}

func (p *Plan) prune(s state, desired map[Key]place) {
	// An object of a kind that is not known now may be one of any namespace.
	loose := map[Key]bool{}
	for key, at := range desired {
		if !at.known {
			loose[Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] = true
		}
	}
	emptied := map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(s.records), compareKeys) {
		if _, wanted := desired[key]; wanted || loose[Key{Group: key.Group, Kind: key.Kind, Name: key.Name}] {
			continue
		}
		record := s.records[key]
		if s.foreign(record.File) {
			p.foreign++
			continue
		}
		step := Step{
			Action: Prune, Object: key, File: record.File, path: record.File, before: record,
			gvk: key.GroupKind().WithVersion(record.Version),
		}
		if base, ok := s.base[key]; ok {
			step.Action, step.object, step.manager, step.gvk = Restore, base.Object, base.FieldManager, base.Object.GroupVersionKind()
		} else if undeletable(key) {
			step.Action = Release
		}
		if place := s.empty(record.File); place != "" {
			emptied[place]++
			step.Why = place + " has no objects any more"
			p.Held = append(p.Held, step)
			continue
		}
		if why := p.hold(s, record); why != "" {
			step.Why = why
			p.Held = append(p.Held, step)
			continue
		}
		failed, again := s.failures[key]
		step.again = again && failed.hash == ""
		if step.again && s.now.Before(failed.next) {
			p.Failed = append(p.Failed, failed.fault)
			p.retryAt(failed.next)
			continue
		}
		p.Prune = append(p.Prune, step)
	}
	for _, place := range slices.Sorted(maps.Keys(emptied)) {
		p.Notices = append(p.Notices, Fault{File: place, Message: fmt.Sprintf(
			"no objects are left here, and the %d that came from here stay as they are: put the files back, or start again with --prune-empty to delete what they had", emptied[place])})
	}
}

// hold says why a record that no file has may not be pruned now.
func (p *Plan) hold(s state, record Record) string {
	if why := s.held(record.File); why != "" {
		return why
	}
	for _, source := range s.sources {
		if len(source.Faults) == 0 {
			continue
		}
		if source.Path == record.File {
			return "its file cannot be read as a manifest"
		}
		if source.mentions(record.Name) {
			return "it may have moved to " + source.Shown + ", which cannot be read as a manifest"
		}
	}
	if due := s.changed(record.File).Add(settleTime); s.now.Before(due) {
		p.retryAt(due)
		return "its file changed less than a second ago"
	}
	return ""
}

func (p *Plan) retryAt(t time.Time) {
	if p.retry.IsZero() || t.Before(p.retry) {
		p.retry = t
	}
}

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// crdKey is the key of the CRD that brings a kind.
func crdKey(k kind) Key {
	return Key{Group: crdKind.Group, Kind: crdKind.Kind, Name: k.gvr.Resource + "." + k.gvr.Group}
}

// definedKind is the kind that a CRD brings.
func definedKind(crd *unstructured.Unstructured) (schema.GroupKind, bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: name}, name != ""
}

// undeletable are the namespaces that the API server does not let go.
func undeletable(key Key) bool {
	if key.GroupKind() != namespaceKind {
		return false
	}
	switch key.Name {
	case "default", "kube-system", "kube-public", "kube-node-lease":
		return true
	}
	return false
}

// wave is when an object is applied; all of one wave go at once, and pruning goes
// the other way. Only what others need at admission has to come first: kinds,
// namespaces, classes; accounts of pods; Services, which checks of routes and profiles
// look for; and webhooks come last, as their server may be among the rest.
func wave(key Key) int {
	switch key.Group {
	case "":
		switch key.Kind {
		case "Namespace", "Node":
			return 0
		case "Pod", "ReplicationController":
			return 2
		}
		return 1
	case "apiextensions.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "node.k8s.io":
		return 0
	case "rbac.authorization.k8s.io":
		return 1
	case "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return 4
	}
	if kindName(key.GroupKind()) == key.Kind {
		return 2
	}
	return 3
}
