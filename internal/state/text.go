package state

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// readable is obj with nothing but UTF-8 in its strings, and what was wrong with them.
//
// This is the one door through which bytes that are no UTF-8 could come in, and
// no message for a proxy can hold any. Custom resources come as JSON, whose
// decoder replaces such bytes, and requests of proxies are refused with them by
// protobuf. Built-in kinds come as Kubernetes' protobuf, which takes any bytes
// for a string, and the API server itself does not look at the values of
// annotations and many other fields. Linkerd reads these kinds as JSON, so it
// has U+FFFD for each such byte; so do we.
func readable(obj kubernetesObject, empty func() kubernetesObject) (metav1.Object, []problems.Problem, error) {
	path, found := notText(reflect.ValueOf(obj))
	if !found {
		return obj, nil, nil
	}
	at := strings.TrimPrefix(path, ".")
	obj.SetManagedFields(nil) // nobody reads them, and they need not be the JSON that they should be
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is no UTF-8: %w", at, err)
	}
	same := empty()
	if err := json.Unmarshal(data, same); err != nil {
		return nil, nil, fmt.Errorf("%s is no UTF-8: %w", at, err)
	}
	return same, []problems.Problem{{
		Field: at, Message: "is no UTF-8", Instead: "it is read as JSON has it, with U+FFFD for what is no text", Severity: problems.Warning,
	}}, nil
}

// notText is the path of the first string in v that is no UTF-8, such as
// ".metadata.annotations[a]".
func notText(v reflect.Value) (at string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return "", !utf8.ValidString(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			return notText(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Others than exported fields are not of the object, but of a time or number.
			if f := v.Field(i); f.CanInterface() {
				if at, found = notText(f); found {
					if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "" {
						at = "." + name + at
					}
					return at, true
				}
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false
		}
		for i := range v.Len() {
			if at, found = notText(v.Index(i)); found {
				return fmt.Sprintf("[%d]%s", i, at), true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if at, found = notText(entries.Value()); !found {
				_, found = notText(entries.Key())
			}
			if found {
				return fmt.Sprintf("[%s]%s", entries.Key(), at), true
			}
		}
	}
	return "", false
}
