// Package compact writes messages on one line.
package compact

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Text writes the fields of a message that are set, in order, and durations as
// text. Fields that omit names are left out; it may be nil.
func Text(m proto.Message, omit func(protoreflect.FieldDescriptor) bool) string {
	return strings.TrimSuffix(strings.TrimPrefix(message(m.ProtoReflect(), omit), "{"), "}")
}

func message(m protoreflect.Message, omit func(protoreflect.FieldDescriptor) bool) string {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		return d.AsDuration().String()
	}
	var fields []string
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		field := descriptors.Get(i)
		if !m.Has(field) || omit != nil && omit(field) {
			continue
		}
		text := ""
		if field.IsList() {
			var items []string
			list := m.Get(field).List()
			for j := range list.Len() {
				items = append(items, value(field, list.Get(j), omit))
			}
			text = "[" + strings.Join(items, " ") + "]"
		} else {
			text = value(field, m.Get(field), omit)
		}
		fields = append(fields, string(field.Name())+":"+text)
	}
	return "{" + strings.Join(fields, " ") + "}"
}

func value(field protoreflect.FieldDescriptor, v protoreflect.Value, omit func(protoreflect.FieldDescriptor) bool) string {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return message(v.Message(), omit)
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(v.Enum()).Name())
	case protoreflect.BytesKind:
		return string(v.Bytes())
	}
	return fmt.Sprint(v.Interface())
}
