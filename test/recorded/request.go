package recorded

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// Request reads the content of an open step: a method of any service that the
// program knows and its request, whose addresses may be text.
func Request(content string) (protoreflect.MethodDescriptor, proto.Message, error) {
	var call struct {
		Service, Method string
		Request         map[string]any
	}
	if err := json.Unmarshal([]byte(content), &call); err != nil {
		return nil, nil, err
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(call.Service))
	if err != nil {
		return nil, nil, fmt.Errorf("find service %q: %w", call.Service, err)
	}
	method := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(call.Method))
	if method == nil {
		return nil, nil, fmt.Errorf("%s has no method %s", call.Service, call.Method)
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
	if err != nil {
		return nil, nil, err
	}
	if err := spellOut(method.Input(), call.Request); err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(call.Request)
	if err != nil {
		return nil, nil, err
	}
	request := kind.New().Interface()
	return method, request, protojson.Unmarshal(text, request)
}

// spellOut turns addresses that are text into messages.
func spellOut(desc protoreflect.MessageDescriptor, fields map[string]any) error {
	for name, value := range fields {
		field := desc.Fields().ByTextName(name)
		if field == nil || field.Message() == nil {
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			if err := spellOut(field.Message(), value); err != nil {
				return err
			}
		case string:
			var parsed proto.Message
			switch field.Message().FullName() {
			case (&net.TcpAddress{}).ProtoReflect().Descriptor().FullName():
				addr, err := netip.ParseAddrPort(value)
				if err != nil {
					return err
				}
				parsed = net.NewTcpAddress(addr)
			case (&net.IPAddress{}).ProtoReflect().Descriptor().FullName():
				addr, err := netip.ParseAddr(value)
				if err != nil {
					return err
				}
				parsed = net.NewIPAddress(addr)
			default:
				continue
			}
			text, err := protojson.Marshal(parsed)
			if err != nil {
				return err
			}
			fields[name] = json.RawMessage(text)
		}
	}
	return nil
}
