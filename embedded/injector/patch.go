package injector

import (
	"encoding/json"
	"strings"
)

// patch is a JSON patch that only adds: what is in an object stays, fields that
// these Go types do not know included.
type patch []operation

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func (p *patch) add(path string, value any) {
	*p = append(*p, operation{Op: "add", Path: path, Value: value})
}

// addAll sets members of a string map, such as the labels; has tells whether
// the object has the map.
func (p *patch) addAll(path string, has bool, keys []string, values map[string]string) {
	if len(keys) == 0 {
		return
	}
	if !has {
		p.add(path, values)
		return
	}
	for _, key := range keys {
		p.add(path+"/"+pointer.Replace(key), values[key])
	}
}

// insert puts value into a list, at its start or its end; has tells whether the
// object has the list.
func (p *patch) insert(path string, has, first bool, value any) {
	switch {
	case !has:
		p.add(path, []any{value})
	case first:
		p.add(path+"/0", value)
	default:
		p.add(path+"/-", value)
	}
}

func (p patch) encode() ([]byte, error) { return json.Marshal(p) }

// pointer escapes a member name in a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")
