// Package strict finds what an object lacks that Linkerd's decoder asks for.
// Go's decoder takes an absent field, and null, for the zero value of any type.
package strict

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Check returns an error about the first field of a value in JSON, given as Go
// decodes it into an interface, without which the value is no T:
//
//   - a field whose tag has no omitempty must be there, and not be null,
//   - a bool may be absent, but not null: it has a default, and is not optional,
//   - no item of a list and no value of a map is null.
//
// What is of another type than T has is left to the decoder.
func Check[T any](at *field.Path, value any) *field.Error {
	return check(at, value, reflect.TypeFor[T]())
}

// CheckSpec is Check for the spec of an object, of which typed is what it was decoded to.
func CheckSpec(object map[string]any, typed any) *field.Error {
	of, has := reflect.TypeOf(typed).Elem().FieldByName("Spec")
	if !has || object["spec"] == nil {
		return nil
	}
	return check(field.NewPath("spec"), object["spec"], of.Type)
}

func check(at *field.Path, value any, of reflect.Type) *field.Error {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch value := value.(type) {
	case map[string]any:
		switch of.Kind() {
		case reflect.Struct:
			return checkFields(at, value, of)
		case reflect.Map:
			// In order, so that of several errors it is always the same.
			keys := make([]string, 0, len(value))
			for key := range value {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			for _, key := range keys {
				if err := checkPresent(at.Key(key), value[key], of.Elem()); err != nil {
					return err
				}
			}
		}
	case []any:
		if of.Kind() == reflect.Slice {
			for i, item := range value {
				if err := checkPresent(at.Index(i), item, of.Elem()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkPresent(at *field.Path, value any, of reflect.Type) *field.Error {
	if value == nil {
		return field.Required(at, "it is null")
	}
	return check(at, value, of)
}

// checkFields looks at the fields that have a name in JSON, and at those of
// structs that are inlined. A struct that decodes itself has none.
func checkFields(at *field.Path, value map[string]any, of reflect.Type) *field.Error {
	for i := range of.NumField() {
		f := of.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		if !tagged {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			if f.Anonymous {
				if err := check(at, value, f.Type); err != nil {
					return err
				}
			}
			continue
		}
		content, present := value[name]
		optional := slices.Contains(strings.Split(options, ","), "omitempty")
		switch {
		case content != nil:
			if err := check(at.Child(name), content, f.Type); err != nil {
				return err
			}
		case !optional && !present:
			return field.Required(at.Child(name), "it is missing")
		case !optional, present && f.Type.Kind() == reflect.Bool:
			return field.Required(at.Child(name), "it is null")
		}
	}
	return nil
}
