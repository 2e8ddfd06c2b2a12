package apply

import (
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// parseFieldPath reads a path as it is written in errors of server-side apply, such as
// .spec.containers[name="web"].ports; structured-merge-diff can only write them. A
// name with a dot in it is taken for two.
func parseFieldPath(text string) (fieldpath.Path, error) {
	var path fieldpath.Path
	for rest := text; rest != ""; {
		var element fieldpath.PathElement
		var err error
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			element, rest = fieldpath.FieldNameElement(rest[1:end+1]), rest[end+1:]
		case '[':
			if element, rest, err = parseEntry(rest[1:]); err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
		default:
			return nil, fmt.Errorf("%q is no path of a field", text)
		}
		path = append(path, element)
	}
	return path, nil
}

// parseEntry reads up to the closing bracket: an index, a value, or the fields of a key.
func parseEntry(text string) (element fieldpath.PathElement, rest string, err error) {
	if inside, after, ok := strings.Cut(text, "]"); ok {
		if index, err := strconv.Atoi(inside); err == nil {
			return fieldpath.IndexElement(index), after, nil
		}
	}
	var key []any
	for {
		name, after, ok := strings.Cut(text, "=")
		if !ok {
			return element, "", fmt.Errorf("no value in %q", text)
		}
		literal, err := strconv.QuotedPrefix(after)
		if err != nil {
			literal = after[:max(strings.IndexAny(after, ",]"), 0)]
		}
		rest = after[len(literal):]
		key = append(key, name, parseValue(literal))
		switch {
		case strings.HasPrefix(rest, ","):
			text = rest[1:]
		case !strings.HasPrefix(rest, "]"):
			return element, "", fmt.Errorf("no end of %q", text)
		case key[0] == "":
			return fieldpath.ValueElement(value.NewValueInterface(key[1])), rest[1:], nil
		default:
			return fieldpath.KeyElementByFields(key...), rest[1:], nil
		}
	}
}

func parseValue(literal string) any {
	if text, err := strconv.Unquote(literal); err == nil {
		return text
	}
	if number, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return number
	}
	if number, err := strconv.ParseFloat(literal, 64); err == nil {
		return number
	}
	if truth, err := strconv.ParseBool(literal); err == nil {
		return truth
	}
	return nil
}

// elementOf is how an entry of a list is called in paths; like is that of another entry
// of the list. A field of the key that the entry lacks has the same value as there: it
// is a default.
func elementOf(entry any, like fieldpath.PathElement) fieldpath.PathElement {
	if like.Key == nil {
		return fieldpath.ValueElement(value.NewValueInterface(entry))
	}
	fields, _ := entry.(map[string]any)
	var key []any
	for _, field := range *like.Key {
		own, has := fields[field.Name]
		if !has {
			own = field.Value.Unstructured()
		}
		key = append(key, field.Name, own)
	}
	return fieldpath.KeyElementByFields(key...)
}

// parentOf is the object that has the field at the end of a path, nil if there is none.
func parentOf(object any, path fieldpath.Path) map[string]any {
	for _, step := range path[:len(path)-1] {
		switch {
		case step.FieldName != nil:
			fields, _ := object.(map[string]any)
			object = fields[*step.FieldName]
		case step.Index != nil:
			list, _ := object.([]any)
			if *step.Index >= len(list) {
				return nil
			}
			object = list[*step.Index]
		default:
			list, _ := object.([]any)
			object = nil
			for _, entry := range list {
				if elementOf(entry, step).Equals(step) {
					object = entry
					break
				}
			}
		}
	}
	fields, _ := object.(map[string]any)
	return fields
}
