package source

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Where is "FILE:LINE: Kind namespace/name" of a problem, as far as they are known. As in a Key,
// kinds that are not Kubernetes' own carry their group.
func Where(p problems.Problem) string {
	object := p.Object
	object.Kind = KindName(schema.GroupKind{Group: object.Group, Kind: object.Kind})
	return strings.TrimPrefix(strings.TrimSuffix(p.Place()+": "+object.String(), ": "), ": ")
}

// Text is a problem in one line, which begins with where it is.
func Text(p problems.Problem) string {
	return strings.TrimPrefix(Where(p)+": "+p.WithoutObject(), ": ")
}

// CompareFaults orders problems by place.
func CompareFaults(a, b problems.Problem) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Message, b.Message))
}

// fault is a problem as an error.
type fault struct{ problems.Problem }

func (f fault) Error() string { return Text(f.Problem) }

// OneLine folds a message of several lines, as parsers and the API server write
// them, into one.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
