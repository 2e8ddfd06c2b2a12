package state

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Sources of problems in the table that a State says them in. A derived kind
// is one too, by its name.
const (
	// sourceDecode says which objects do not decode.
	sourceDecode = "decode"
	// sourceStore says which objects our own functions fail on.
	sourceStore = "store"
	// sourceWatch says which kinds cannot be listed or watched.
	sourceWatch = "watch"
)

const (
	lastVersionStays = "its last valid version stays in force"
	noEffect         = "it is as if it were not there"
)

// instead says what is used in place of a version that is of no use.
func instead(kept bool) string {
	if kept {
		return lastVersionStays
	}
	return noEffect
}

// desk is where one source of a State says what is wrong with objects.
type desk struct {
	table   *problems.Table
	cluster string
	source  string
}

// say makes found all that is wrong with the object of that kind, which it is
// about unless it names another.
func (d desk) say(kind *KindInfo, key string, found ...problems.Problem) *problems.News {
	for i := range found {
		if found[i].Object == (problems.Object{}) {
			namespace, name := splitKey(key)
			found[i].Object = problems.ObjectOf(kind.GVK, namespace, name)
		}
		found[i].Object.Cluster = d.cluster
	}
	return d.table.Record(d.source, d.subject(kind, key), found...)
}

// subject is unique within a source: several clusters and kinds say things there.
func (d desk) subject(kind *KindInfo, key string) string {
	return d.cluster + "/" + kind.Name + "/" + key
}

// undecodable is the problem of an object that does not decode.
func undecodable(err error, kept bool) problems.Problem {
	p := problems.Problem{Message: "does not decode: " + err.Error(), Instead: instead(kept), Severity: problems.Error}
	var invalid *field.Error
	if errors.As(err, &invalid) {
		p.Field, p.Message = invalid.Field, "does not decode: "+invalid.ErrorBody()
	}
	return p
}

// faulty is the problem of an object that a function of ours panics at.
func faulty(fault *problems.Fault, kept bool) problems.Problem {
	return problems.Problem{Message: fault.Error(), Instead: instead(kept), Severity: problems.Error}
}

// unwatched is the problem of a kind that cannot be listed or watched.
func unwatched(kind *KindInfo, err error) problems.Problem {
	return problems.Problem{
		Object:   problems.ObjectOf(kind.GVK, "", ""),
		Message:  "cannot list or watch: " + err.Error(),
		Instead:  "what was known of this kind last is used until that goes well",
		Severity: problems.Error,
	}
}
