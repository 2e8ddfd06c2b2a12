package outbound

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy"
)

// TestCases plays the conversations of testdata/cases against the views,
// without an API server. A case is a txtar archive whose steps are apply,
// delete, open, want and close; its comment holds directives.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, c *cluster) {
				p := &player{cluster: c, state: strings.Contains(string(archive.Comment), "# compare: state"), streams: map[string]*stream{}, last: map[string]*pb.OutboundPolicy{}}
				for _, step := range archive.Files {
					p.play(t, step.Name, fill(string(step.Data)))
				}
				for name, s := range p.streams {
					if rest := s.take(); len(rest) > 0 && !p.state {
						t.Errorf("%s said more: %v", name, rest)
					}
				}
			})
		})
	}
}

var clusterIP = regexp.MustCompile(`\$CIP(\d)`)

// fill replaces what differs from run to run.
func fill(content string) string {
	return clusterIP.ReplaceAllString(strings.ReplaceAll(content, "$NS", "ns"), "10.96.0.10$1")
}

type player struct {
	*cluster
	// state compares only the last message.
	state   bool
	streams map[string]*stream
	last    map[string]*pb.OutboundPolicy
}

func (p *player) play(t *testing.T, step, content string) {
	_, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(step, ".json"), ".yaml"), "-")
	verb, name, _ := strings.Cut(rest, "-")
	switch verb {
	case "apply":
		for _, doc := range strings.Split(content, "\n---\n") {
			p.put(withNamespace(t, doc))
		}
		p.settle()
	case "delete":
		for _, doc := range strings.Split(content, "\n---\n") {
			object := object(t, withNamespace(t, doc))
			kind := object["kind"].(string)
			if kind == "HTTPRoute" && strings.HasPrefix(object["apiVersion"].(string), "gateway") {
				kind = "GatewayHTTPRoute"
			}
			meta := object["metadata"].(map[string]any)
			p.remove(fmt.Sprintf("%s/%s/%s", kind, meta["namespace"], meta["name"]))
		}
	case "open":
		p.call(t, name, content)
	case "want":
		p.want(t, step, name, content)
	case "close":
		p.streams[name].cancel()
		p.settle()
	case "sleep.txt":
	default:
		t.Fatalf("unknown step %q", step)
	}
}

func object(t *testing.T, doc string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(doc), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// withNamespace puts an object without namespace into the case's own.
func withNamespace(t *testing.T, doc string) string {
	object := object(t, doc)
	meta := object["metadata"].(map[string]any)
	if _, ok := meta["namespace"]; !ok {
		meta["namespace"] = "ns"
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// call opens a call. Addresses may be written as text.
func (p *player) call(t *testing.T, name, content string) {
	var file struct {
		Method  string
		Request map[string]any
	}
	if err := json.Unmarshal([]byte(content), &file); err != nil {
		t.Fatal(err)
	}
	switch addr := file.Request["addr"].(type) {
	case string:
		ap := netip.MustParseAddrPort(addr)
		file.Request["addr"] = map[string]any{"ip": addrJSON(ap.Addr()), "port": ap.Port()}
	case map[string]any:
		if ip, ok := addr["ip"].(string); ok {
			addr["ip"] = addrJSON(netip.MustParseAddr(ip))
		}
	}
	text, err := json.Marshal(file.Request)
	if err != nil {
		t.Fatal(err)
	}
	request := &pb.TrafficSpec{}
	if err := protojson.Unmarshal(text, request); err != nil {
		t.Fatal(err)
	}
	if file.Method == "Watch" {
		p.streams[name] = p.open(request)
		return
	}
	s := &stream{t: t, cancel: func() {}, ended: true}
	answer, err := p.server.Get(t.Context(), request)
	if s.err = err; err == nil {
		s.messages = []*pb.OutboundPolicy{answer}
	}
	p.streams[name] = s
}

func addrJSON(ip netip.Addr) any {
	text, err := protojson.Marshal(policy.Address(ip))
	if err != nil {
		panic(err)
	}
	return json.RawMessage(text)
}

func (p *player) want(t *testing.T, step, name, content string) {
	t.Helper()
	var want map[string]any
	if err := json.Unmarshal([]byte(content), &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	messages := []any{}
	for _, m := range p.streams[name].take() {
		p.last[name] = m
		messages = append(messages, render(m.ProtoReflect()))
	}
	if p.state {
		got["state"] = map[string]any{}
		if last := p.last[name]; last != nil {
			got["state"] = map[string]any{"last": render(last.ProtoReflect())}
		}
	} else {
		got["messages"] = messages
		if want["messages"] == nil {
			want["messages"] = []any{}
		}
	}
	if end := p.streams[name].end(); end != "" {
		code, message, _ := strings.Cut(end, " ")
		got["status"] = map[string]any{"code": code, "message": message}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", step, diff)
	}
}

// render writes a message as cases do: fields that are set, addresses and
// durations as text.
func render(m protoreflect.Message) any {
	switch m := m.Interface().(type) {
	case *net.TcpAddress:
		return addrText(m)
	case *durationpb.Duration:
		return m.AsDuration().String()
	}
	out := map[string]any{}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		if !field.IsList() {
			out[name] = renderValue(field, value)
			return true
		}
		items := []any{}
		for i := range value.List().Len() {
			items = append(items, renderValue(field, value.List().Get(i)))
		}
		out[name] = items
		return true
	})
	return out
}

func renderValue(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return render(value.Message())
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	case protoreflect.Uint32Kind:
		return float64(value.Uint())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return value.Float()
	case protoreflect.BytesKind:
		return string(value.Bytes())
	}
	return value.Interface()
}
