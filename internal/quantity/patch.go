package quantity

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// CheckPatch is CheckJSON for a JSON patch (RFC 6902) of an object of type t.
func CheckPatch(data []byte, t reflect.Type) error {
	if !Suspect(data) {
		return nil
	}
	var operations []struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(data, &operations) != nil {
		return nil // whoever applies it says so
	}
	for _, operation := range operations {
		w := newWalker(operation.Value)
		at := t
		for _, step := range strings.Split(operation.Path, "/")[1:] {
			step = unescape.Replace(step)
			at = deref(at)
			if _, err := strconv.Atoi(step); element(at) != nil && (err == nil || step == "-") {
				at = element(at)
				w.path = append(w.path, "["+step+"]")
				continue
			}
			name, member := w.member(at, step)
			at, w.path = member, append(w.path, name)
		}
		if err := w.check(at); err != nil {
			return err
		}
	}
	return nil
}

// unescape turns a reference token of a JSON pointer into a name.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")
