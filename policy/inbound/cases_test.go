package inbound

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
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
				p := &player{cluster: c, state: strings.Contains(string(archive.Comment), "# compare: state"), streams: map[string]*stream{}, last: map[string]*pb.Server{}}
				for _, step := range archive.Files {
					p.play(t, step.Name, strings.ReplaceAll(string(step.Data), "$NS", "ns"))
				}
			})
		})
	}
}

type player struct {
	*cluster
	// state compares only the last message.
	state   bool
	streams map[string]*stream
	last    map[string]*pb.Server
}

func (p *player) play(t *testing.T, step, content string) {
	_, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(step, ".json"), ".yaml"), "-")
	verb, name, _ := strings.Cut(rest, "-")
	switch verb {
	case "apply":
		for _, doc := range strings.Split(content, "\n---\n") {
			if doc, ok := withNamespace(t, doc); ok {
				p.put(doc)
			}
		}
		p.settle()
	case "delete":
		for _, doc := range strings.Split(content, "\n---\n") {
			object := object(t, doc)
			kind := object["kind"].(string)
			if kind == "HTTPRoute" && strings.HasPrefix(object["apiVersion"].(string), "gateway") {
				kind = "GatewayHTTPRoute"
			}
			namespace, _ := object["metadata"].(map[string]any)["namespace"].(string)
			if namespace == "" {
				namespace = "ns"
			}
			p.remove(fmt.Sprintf("%s/%s/%s", kind, namespace, object["metadata"].(map[string]any)["name"]))
		}
	case "open":
		p.open(t, name, content)
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

// withNamespace puts an object without namespace into the case's own. It
// returns false for objects that inbound policy does not read.
func withNamespace(t *testing.T, doc string) (string, bool) {
	object := object(t, doc)
	if kind := object["kind"]; kind == "Namespace" || kind == "Service" || kind == "ServiceAccount" {
		return "", false
	}
	meta := object["metadata"].(map[string]any)
	if _, ok := meta["namespace"]; !ok {
		meta["namespace"] = "ns"
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), true
}

func (p *player) open(t *testing.T, name, content string) {
	var file struct {
		Method  string
		Request struct {
			Workload string
			Port     uint32
		}
	}
	if err := json.Unmarshal([]byte(content), &file); err != nil {
		t.Fatal(err)
	}
	if file.Method == "WatchPort" {
		p.streams[name] = p.watch(file.Request.Workload, file.Request.Port)
		return
	}
	s := &stream{t: t, cancel: func() {}, ended: true}
	answer, err := p.server.GetPort(t.Context(), &pb.PortSpec{Workload: file.Request.Workload, Port: file.Request.Port})
	if s.err = err; err == nil {
		s.messages = []*pb.Server{answer}
	}
	p.streams[name] = s
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
		messages = append(messages, sortAuthorizations(render(m.ProtoReflect())))
	}
	if p.state {
		got["state"] = map[string]any{}
		if last := p.last[name]; last != nil {
			got["state"] = map[string]any{"last": sortAuthorizations(render(last.ProtoReflect()))}
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
	if diff := cmp.Diff(sortAuthorizations(want), any(got)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", step, diff)
	}
}

// sortAuthorizations orders what is a set on the wire.
func sortAuthorizations(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			sortAuthorizations(value)
			if list, ok := value.([]any); ok && key == "authorizations" {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for _, item := range v {
			sortAuthorizations(item)
		}
	}
	return v
}

// render writes a message as cases do: fields that are set, networks and
// durations as text.
func render(m protoreflect.Message) any {
	switch m := m.Interface().(type) {
	case *net.IPNetwork:
		return networkText(m)
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
				entries[k.String()] = v.String()
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

func renderValue(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return render(value.Message())
	case protoreflect.EnumKind:
		return string(field.Enum().Values().ByNumber(value.Enum()).Name())
	case protoreflect.Uint32Kind:
		return float64(value.Uint())
	case protoreflect.BytesKind:
		return string(value.Bytes())
	}
	return value.Interface()
}
