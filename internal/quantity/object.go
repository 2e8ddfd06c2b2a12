package quantity

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// FieldError is a quantity that Check refuses, at a field.
type FieldError struct {
	// Field is a path such as spec.containers[0].resources.limits[cpu].
	Field string
	Value string
	Err   error
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

func (e *FieldError) Unwrap() error { return e.Err }

// maxDepth is how deep objects are looked at: deeper ones are refused by every
// decoder of JSON.
const maxDepth = 10000

// embedded are the members of a kind that hold objects as text or without a
// type, which somebody decodes later.
var embedded = map[string]reflect.Type{
	// Read by the conversion of HorizontalPodAutoscalers.
	"autoscaling.alpha.kubernetes.io/metrics":         reflect.TypeFor[[]autoscalingv1.MetricSpec](),
	"autoscaling.alpha.kubernetes.io/current-metrics": reflect.TypeFor[[]autoscalingv1.MetricStatus](),
}

// revision is what the data of a ControllerRevision holds.
type revision struct {
	Spec struct {
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// CheckJSON is Check for all quantities of an object of type t in JSON, without
// decoding it. Its first error is a *FieldError; JSON that is broken is left to
// whoever decodes it.
func CheckJSON(data []byte, t reflect.Type) error {
	if !Suspect(data) {
		return nil
	}
	return newWalker(data).check(t)
}

// errBroken says that there is no more to read that can be decoded.
var errBroken = errors.New("broken JSON")

// walker follows the tokens of an object along its type.
type walker struct {
	decoder *json.Decoder
	path    []string
}

func newWalker(data []byte) *walker {
	w := &walker{decoder: json.NewDecoder(bytes.NewReader(data))}
	w.decoder.UseNumber()
	return w
}

// check reads all there is as one value of type t.
func (w *walker) check(t reflect.Type) error {
	if err := w.value(t, 0); err != errBroken {
		return err
	}
	return nil
}

// value reads one value of type t, which is nil where there is no type.
func (w *walker) value(t reflect.Type, depth int) error {
	token, err := w.decoder.Token()
	if err != nil || depth > maxDepth {
		return errBroken
	}
	t = deref(t)
	switch token := token.(type) {
	case json.Delim:
		for i := 0; w.decoder.More(); i++ {
			var step string
			member := element(t)
			if token == '{' {
				key, err := w.decoder.Token()
				if err != nil {
					return errBroken
				}
				step, member = w.member(t, key.(string)) // keys of JSON are strings
			} else {
				step = "[" + strconv.Itoa(i) + "]"
			}
			w.path = append(w.path, step)
			if err := w.value(member, depth+1); err != nil {
				return err
			}
			w.path = w.path[:len(w.path)-1]
		}
		if _, err := w.decoder.Token(); err != nil {
			return errBroken
		}
	case json.Number:
		return w.scalar(t, token.String())
	case string:
		return w.scalar(t, token)
	}
	return nil
}

// scalar checks a string or a number: quantities are both.
func (w *walker) scalar(t reflect.Type, text string) error {
	if t == nil {
		return nil
	}
	var err error
	if t == quantityType {
		err = Check(strings.TrimSpace(text))
	} else if inner, ok := w.inner(); ok {
		err = newWalker([]byte(text)).check(inner)
	}
	if err != nil {
		return &FieldError{Field: strings.TrimPrefix(strings.Join(w.path, ""), "."), Value: text, Err: err}
	}
	return nil
}

// inner is the type of what the text at the current path holds.
func (w *walker) inner() (reflect.Type, bool) {
	n := len(w.path)
	if n < 2 || w.path[n-2] != ".annotations" {
		return nil, false
	}
	t, ok := embedded[strings.Trim(w.path[n-1], "[]")]
	return t, ok
}

func deref(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func element(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		return t.Elem()
	}
	return nil
}

// member is how a member of an object is written in a path, and its type.
func (w *walker) member(t reflect.Type, key string) (step string, _ reflect.Type) {
	if t == nil {
		return "." + key, nil
	}
	switch t.Kind() {
	case reflect.Map:
		return "[" + key + "]", t.Elem()
	case reflect.Struct:
		if t.Name() == "ControllerRevision" && strings.EqualFold(key, "data") {
			return "." + key, reflect.TypeFor[revision]()
		}
		return "." + key, field(t, key)
	}
	return "." + key, nil
}

// field is the type of the field that JSON calls name. Case does not count, as
// it does not for encoding/json.
func field(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "" && f.Anonymous:
			if inner := field(f.Type, name); inner != nil {
				return inner
			}
		case strings.EqualFold(tag, name) || tag == "" && strings.EqualFold(f.Name, name):
			return f.Type
		}
	}
	return nil
}
