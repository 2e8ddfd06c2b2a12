package problems

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// Problem is one thing that is wrong. It is immutable.
//
// Texts of others may be quoted in it: the Table makes them printable and cuts
// long ones.
type Problem struct {
	// Object is what is wrong; zero when it is a file in which no object was recognised.
	Object Object `json:"object,omitzero"`
	// Field is the path of the field as field.Path prints it
	// ("spec.rules[0].matches[1]"); "" when it is the whole object.
	Field string `json:"field,omitempty"`
	// File is what it was read from, as the user named it, and Line where in it, from 1; zero
	// when that is not known.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Message says what is wrong, and what to do where that is not obvious.
	Message string `json:"message"`
	// Instead says what is used in place of it: a default, the last valid
	// version, nothing. "" when Message says it.
	Instead string `json:"instead,omitempty"`
	// Severity is "" in a list that says it for all of its problems.
	Severity Severity `json:"severity,omitempty"`
	// Source is who says it: a lower-case word that names a part or a step of
	// one ("decode", "manifests"). There is a fixed number of sources. Set by the Table.
	Source string `json:"source,omitempty"`
	// Since is when it was first said. Set by the Table.
	Since time.Time `json:"since,omitzero"`
}

// Severity says how much a problem matters.
type Severity string

const (
	// Note is for an object that works as it says, which may surprise.
	Note Severity = "note"
	// Warning is for an object that works, if not as its author may think.
	Warning Severity = "warning"
	// Error is for an object, or a part of it, that has no effect until it is mended.
	Error Severity = "error"
)

// Object names a Kubernetes object. Version and Group may be "" for what is not known.
type Object struct {
	// Cluster is the linked cluster that it is of; "" for the one that is served.
	Cluster   string `json:"cluster,omitempty"`
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// ObjectOf names an object of a kind; namespace is "" for a cluster-wide one.
func ObjectOf(kind schema.GroupVersionKind, namespace, name string) Object {
	return Object{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: namespace, Name: name}
}

// String is "Server default/web", with " in east" for one of the linked cluster east.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	text := strings.TrimSpace(o.Kind + " " + name)
	if o.Cluster != "" {
		text += " in " + o.Cluster
	}
	return text
}

// Annotation is the path of an annotation of any object.
func Annotation(name string) *field.Path { return field.NewPath("metadata", "annotations").Key(name) }

// At is an error of a field.
func At(at *field.Path, format string, args ...any) *Problem {
	return &Problem{Field: at.String(), Message: fmt.Sprintf(format, args...), Severity: Error}
}

// Of is a field that cannot be used as a problem; nil without an error.
func Of(err *field.Error) *Problem {
	if err == nil {
		return nil
	}
	return &Problem{Field: err.Field, Message: err.ErrorBody(), Severity: Error}
}

// Odd is a warning of a field.
func Odd(at *field.Path, format string, args ...any) Problem {
	warning := *At(at, format, args...)
	warning.Severity = Warning
	return warning
}

// About makes an object that of all problems, and returns them.
func About(object Object, found []Problem) []Problem {
	for i := range found {
		found[i].Object = object
	}
	return found
}

// Ignored is a field whose value is of no use; instead says what holds in its place.
func Ignored(at *field.Path, err error, instead string) Problem {
	return Problem{Field: at.String(), Message: err.Error(), Instead: instead, Severity: Error}
}

// Unusable is a version of an object that is of no use, since it does what
// ("does not decode"). Kept says that the last one that could be used stays.
func Unusable(what string, err error, kept bool) Problem {
	p := Problem{Message: what + ": " + err.Error(), Instead: Instead(kept), Severity: Error}
	var invalid *field.Error
	if errors.As(err, &invalid) {
		p.Field, p.Message = invalid.Field, what+": "+invalid.ErrorBody()
	}
	return p
}

// Instead says what is used in place of a version that is of no use.
func Instead(kept bool) string {
	if kept {
		return "its last valid version stays in force"
	}
	return "it is as if it were not there"
}

// Refusal is the first error among problems: an object that has one is not
// taken. Nil if there are only warnings.
func Refusal(list []Problem) *Problem {
	if i := slices.IndexFunc(list, func(p Problem) bool { return p.Severity == Error }); i >= 0 {
		return &list[i]
	}
	return nil
}

// Place is "FILE:LINE" or "FILE"; "" when it is not known.
func (p Problem) Place() string {
	if p.File == "" || p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// String is one line: where, which object, what, and what is used instead.
func (p Problem) String() string {
	return joined(p.Place(), p.Object.String(), p.WithoutObject())
}

// WithoutObject is String without place and object.
func (p Problem) WithoutObject() string {
	line := joined(p.Field, p.Message)
	if p.Instead != "" {
		line += "; " + p.Instead
	}
	return line
}

// joined puts colons between the parts that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// compare orders problems by kind, object, field, message and source.
func compare(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.Object.Kind, b.Object.Kind),
		cmp.Compare(a.Object.Group, b.Object.Group),
		cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		cmp.Compare(a.Object.Name, b.Object.Name),
		cmp.Compare(a.Object.Cluster, b.Object.Cluster),
		cmp.Compare(a.File, b.File),
		cmp.Compare(a.Line, b.Line),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Message, b.Message),
		cmp.Compare(a.Source, b.Source),
	)
}

// maxText is the longest text kept, in bytes.
const maxText = 1024

// normal returns p as source says it: with printable texts of bounded length
// and without a time.
func normal(p Problem, source string) Problem {
	for _, text := range []*string{
		&p.Object.Cluster, &p.Object.Group, &p.Object.Version, &p.Object.Kind, &p.Object.Namespace, &p.Object.Name,
		&p.Field, &p.File, &p.Message, &p.Instead,
	} {
		*text = shown(*text)
	}
	if p.Severity == "" {
		p.Severity = Warning
	}
	p.Source, p.Since = source, time.Time{}
	return p
}

// shown returns text without what a terminal would act upon, and without what
// is no UTF-8, cut to maxText.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, printable.Cut(text, maxText))
}
