package state

import (
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

// faulty is the problem of an object that a function of ours panics at.
func faulty(fault *problems.Fault, kept bool) problems.Problem {
	return problems.Problem{Message: fault.Error(), Instead: problems.Instead(kept), Severity: problems.Error}
}

// unwatched is the problem of a kind that cannot be listed or watched.
func unwatched(kind *KindInfo, err error) problems.Problem {
	return problems.Problem{
		Object:   problems.ObjectOf(kind.GVK, "", ""),
		Message:  "cannot list or watch: " + problems.Text(err),
		Instead:  "what was known of this kind last is used until that goes well",
		Severity: problems.Error,
	}
}
