package recorded

import (
	"encoding/base64"
	"net/netip"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// Render writes a message as cases do: fields that are set under their own
// names, addresses, networks and durations as text.
func Render(m protoreflect.Message) any {
	switch m := m.Interface().(type) {
	case *net.TcpAddress:
		return m.AddrPort().String()
	case *net.IPAddress:
		return m.Addr().String()
	case *net.IPNetwork:
		return netip.PrefixFrom(m.GetIp().Addr(), int(m.GetPrefixLen())).String()
	case *durationpb.Duration:
		return m.AsDuration().String()
	}
	out := map[string]any{}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		switch {
		case field.IsMap():
			entries := map[string]any{}
			value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = renderValue(field.MapValue(), v)
				return true
			})
			out[name] = entries
		case field.IsList():
			items := []any{}
			for i := range value.List().Len() {
				items = append(items, renderValue(field, value.List().Get(i)))
			}
			out[name] = items
		default:
			out[name] = renderValue(field, value)
		}
		return true
	})
	return out
}

// renderValue returns what a JSON decoder would for the value.
func renderValue(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return Render(value.Message())
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return string(known.Name())
		}
		return float64(value.Enum())
	case protoreflect.FloatKind:
		short, _ := strconv.ParseFloat(strconv.FormatFloat(value.Float(), 'g', -1, 32), 64)
		return short
	case protoreflect.DoubleKind:
		return value.Float()
	case protoreflect.BoolKind, protoreflect.StringKind:
		return value.Interface()
	case protoreflect.BytesKind:
		if b := value.Bytes(); utf8.Valid(b) {
			return string(b)
		} else {
			return "base64:" + base64.StdEncoding.EncodeToString(b)
		}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return float64(value.Uint())
	}
	return float64(value.Int())
}
