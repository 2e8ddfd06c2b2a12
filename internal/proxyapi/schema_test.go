package proxyapi_test

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/identity"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/opaque_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/tap"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/tls_route"
)

// TestSchema compares every message, field, enum and method of the generated
// code with testdata/schema.tsv, in both directions.
func TestSchema(t *testing.T) {
	var got []string
	for _, f := range []protoreflect.FileDescriptor{
		destination.File_proxyapi_destination_destination_proto,
		grpc_route.File_proxyapi_grpc_route_grpc_route_proto,
		http_route.File_proxyapi_http_route_http_route_proto,
		http_types.File_proxyapi_http_types_http_types_proto,
		identity.File_proxyapi_identity_identity_proto,
		inbound.File_proxyapi_inbound_inbound_proto,
		meta.File_proxyapi_meta_meta_proto,
		net.File_proxyapi_net_net_proto,
		opaque_route.File_proxyapi_opaque_route_opaque_route_proto,
		outbound.File_proxyapi_outbound_outbound_proto,
		tap.File_proxyapi_tap_tap_proto,
		tls_route.File_proxyapi_tls_route_tls_route_proto,
	} {
		got = append(got, facts(f)...)
	}
	data, err := os.ReadFile("testdata/schema.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")[1:]
	if len(want) < 600 {
		t.Fatalf("testdata/schema.tsv has only %d rows", len(want))
	}
	sort.Strings(got)
	sort.Strings(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema differs (-want +got):\n%s", diff)
	}
}

// facts renders a file as the rows of testdata/schema.tsv.
func facts(f protoreflect.FileDescriptor) []string {
	var rows []string
	pkg := string(f.Package())
	row := func(kind, path, name, number, label, typ, note string) {
		rows = append(rows, strings.Join([]string{pkg, kind, path, name, number, label, typ, note}, "\t"))
	}
	inside := func(d protoreflect.Descriptor) string {
		return strings.TrimPrefix(string(d.FullName()), pkg+".")
	}
	enums := func(es protoreflect.EnumDescriptors) {
		for i := range es.Len() {
			e := es.Get(i)
			row("enum", inside(e), "", "", "", "", "")
			for j := range e.Values().Len() {
				v := e.Values().Get(j)
				row("value", inside(e), string(v.Name()), fmt.Sprint(v.Number()), "", "", "")
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			if m.IsMapEntry() {
				continue
			}
			path := inside(m)
			row("message", path, "", "", "", "", "")
			for j := range m.Fields().Len() {
				fd := m.Fields().Get(j)
				note := ""
				if fd.Options().(*descriptorpb.FieldOptions).GetDeprecated() {
					note = "deprecated"
				}
				row("field", path, string(fd.Name()), fmt.Sprint(fd.Number()), label(fd), typeOf(fd), note)
			}
			for j := range m.ReservedRanges().Len() {
				r := m.ReservedRanges().Get(j)
				number := fmt.Sprint(r[0])
				if r[1] != r[0]+1 {
					number = fmt.Sprintf("%d-%d", r[0], r[1]-1)
				}
				row("reserved", path, "", number, "", "number", "")
			}
			for j := range m.ReservedNames().Len() {
				row("reserved", path, string(m.ReservedNames().Get(j)), "", "", "name", "")
			}
			messages(m.Messages())
			enums(m.Enums())
		}
	}
	messages(f.Messages())
	enums(f.Enums())
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		row("service", inside(s), "", "", "", "", "")
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			kind := func(stream bool) string {
				if stream {
					return "stream"
				}
				return "unary"
			}
			row("method", inside(s), string(m.Name()), "",
				"client-"+kind(m.IsStreamingClient())+",server-"+kind(m.IsStreamingServer()),
				string(m.Input().FullName())+" -> "+string(m.Output().FullName()), "")
		}
	}
	return rows
}

// label names a field's cardinality; explicit presence has no name of its own
// and so would fail the comparison.
func label(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "map"
	case fd.IsList():
		return "repeated"
	case fd.HasOptionalKeyword():
		return "optional keyword"
	case fd.ContainingOneof() != nil:
		return "oneof " + string(fd.ContainingOneof().Name())
	}
	return "optional"
}

// typeOf names a field's scalar type or its message's or enum's full name.
func typeOf(fd protoreflect.FieldDescriptor) string {
	if fd.IsMap() {
		return fmt.Sprintf("map<%s,%s>", typeOf(fd.MapKey()), typeOf(fd.MapValue()))
	}
	if m := fd.Message(); m != nil {
		return string(m.FullName())
	}
	if e := fd.Enum(); e != nil {
		return string(e.FullName())
	}
	return fd.Kind().String()
}
