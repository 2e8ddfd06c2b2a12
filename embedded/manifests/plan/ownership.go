package plan

import (
	"fmt"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// Ownership says what a manifest may do to an object that the program keeps in
// the API server by itself.
type Ownership int

const (
	// Free objects are the manifests' alone.
	Free Ownership = iota
	// Shared objects take what a manifest has, and lose that with it; they are not deleted.
	Shared
	// Exclusive objects are left alone: they would not be true any more, or not
	// work. A notice for each file says so.
	Exclusive
)

// maxLeft is how many objects a notice names one by one. Of more it has the kinds.
const maxLeft = 3

// leaveAlone adds the notice about objects of a file that are not applied.
func (p *Plan) leaveAlone(src *source.Source, keys []source.Key) {
	if len(keys) == 0 {
		return
	}
	var kinds []string
	ofKind := map[string][]source.Key{}
	for _, key := range keys {
		kind := source.KindName(key.GroupKind())
		if len(keys) <= maxLeft {
			kind = key.String()
		}
		if ofKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		ofKind[kind] = append(ofKind[kind], key)
	}
	for i, kind := range kinds {
		if n := len(ofKind[kind]); n > 1 {
			kinds[i] = fmt.Sprintf("%d %ss", n, kind)
		} else {
			kinds[i] = ofKind[kind][0].String()
		}
	}
	p.Warnings = append(p.Warnings, problems.Problem{File: src.Shown, Message: fmt.Sprintf(
		"not applied, as linkerd-lite keeps these itself: %s; remove them here, or leave them, nothing depends on it", strings.Join(kinds, ", "))})
}
