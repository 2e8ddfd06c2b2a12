package destination

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// TestCases plays the recorded conversations of testdata/cases against the
// views, without an API server. A case is a txtar archive whose steps are
// apply, delete, open, want and close; its comment holds directives.
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
			bubble(t, caseConfig(t, directive(archive, "server")), func(t *testing.T, c *cluster) {
				p := &player{cluster: c, compare: directive(archive, "compare"), streams: map[string]*stream[proto.Message]{}, states: map[string]map[string]any{}}
				for _, step := range archive.Files {
					p.play(t, step.Name, fill(string(step.Data)))
				}
			})
		})
	}
}

func directive(archive *txtar.Archive, key string) string {
	for _, line := range strings.Split(string(archive.Comment), "\n") {
		if value, ok := strings.CutPrefix(line, "# "+key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// caseConfig returns the set of flags of that name.
func caseConfig(t *testing.T, name string) Config {
	config := DefaultConfig()
	switch name {
	case "", "default":
	case "ipv6":
		config.EnableIPv6 = true
	case "plain":
		config.OutboundTransportMode = TransportTransparent
		config.EnableH2Upgrade = false
		config.DefaultOpaquePorts = ""
		config.MeshedHTTP2ClientParams = ""
		config.ExtEndpointZoneWeights = true
	case "endpoints":
		config.EnableEndpointSlices = false
	default:
		t.Fatalf("unknown set of flags %q", name)
	}
	return config
}

// fill replaces placeholders by values that tests can tell apart.
func fill(text string) string {
	var pairs []string
	for i := 40; i > 0; i-- { // $IP10 before $IP1
		pairs = append(pairs, fmt.Sprintf("$IP%d", i), fmt.Sprintf("10.128.0.%d", 100+i), fmt.Sprintf("$SIX%d", i), fmt.Sprintf("fd00:c0f0::%d", 100+i))
		if i < 10 {
			pairs = append(pairs, fmt.Sprintf("$CIP%d", i), fmt.Sprintf("10.96.0.%d", 100+i))
		}
	}
	pairs = append(pairs, "$NS", "ns", "$KUBECONFIG", "")
	return strings.NewReplacer(pairs...).Replace(text)
}

type player struct {
	*cluster
	compare string
	streams map[string]*stream[proto.Message]
	// states are what the client of each stream holds, by address (compare: state).
	states map[string]map[string]any
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
			p.delete(t, withNamespace(t, doc))
		}
	case "open":
		p.open(t, name, content)
	case "want":
		p.want(t, step, name, content)
	case "close":
		p.streams[name].cancel()
		p.settle()
	case "sleep.txt":
		time.Sleep(time.Minute) // in the bubble's time
	default:
		t.Fatalf("unknown step %q", step)
	}
}

func withNamespace(t *testing.T, doc string) string {
	object := *decode(t, doc, &map[string]any{})
	meta := object["metadata"].(map[string]any)
	if _, ok := meta["namespace"]; !ok && object["kind"] != "Node" && object["kind"] != "Namespace" {
		meta["namespace"] = "ns"
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (p *player) delete(t *testing.T, doc string) {
	object := *decode(t, doc, &map[string]any{})
	meta := object["metadata"].(map[string]any)
	if object["kind"] == "Secret" {
		name := strings.TrimPrefix(meta["name"].(string), "link-")
		p.links.set(name, nil)
		p.settle()
		return
	}
	namespace, _ := meta["namespace"].(string)
	p.remove(fmt.Sprintf("%s/%s/%s", object["kind"], namespace, meta["name"]))
}

func (p *player) open(t *testing.T, name, content string) {
	file := decode(t, content, &struct {
		Method  string
		Request json.RawMessage
	}{})
	request := &pb.GetDestination{}
	if err := protojson.Unmarshal(file.Request, request); err != nil {
		t.Fatal(err)
	}
	decode := func(data []byte) (proto.Message, error) {
		m := proto.Message(&pb.Update{})
		if file.Method == "GetProfile" {
			m = &pb.DestinationProfile{}
		}
		return m, proto.Unmarshal(data, m)
	}
	p.states[name] = map[string]any{}
	p.streams[name] = open(p.cluster, decode, func(s *stream[proto.Message]) error {
		if file.Method == "GetProfile" {
			return p.server.GetProfile(request, typed[pb.DestinationProfile]{s})
		}
		return p.server.Get(request, typed[pb.Update]{s})
	})
}

// typed lets a stream of any message pass for one of M.
type typed[M any] struct{ *stream[proto.Message] }

func (s typed[M]) Send(m *M) error { return s.SendMsg(m) }

func (p *player) want(t *testing.T, step, name, content string) {
	want := *decode(t, content, &map[string]any{})
	got := map[string]any{}
	taken := p.streams[name].take()
	if p.compare == "state" {
		got["state"] = map[string]any{"endpoints": p.fold(name, taken)}
		if state, ok := want["state"].(map[string]any); ok {
			sortAny(state["endpoints"])
		}
	} else {
		messages := []any{}
		for _, m := range taken {
			messages = append(messages, render(m.ProtoReflect()))
		}
		got["messages"] = joined(messages)
		wanted, _ := want["messages"].([]any)
		want["messages"] = joined(wanted)
	}
	if status, ended := p.streams[name].status(); ended {
		got["status"] = map[string]any{"code": status.Code().String(), "message": status.Message()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", step, diff)
	}
}

// fold applies updates to what the client holds and returns that.
func (p *player) fold(name string, messages []proto.Message) []any {
	held := p.states[name]
	for _, m := range messages {
		u := m.(*pb.Update)
		for _, w := range u.GetAdd().GetAddrs() {
			e := render(w.ProtoReflect()).(map[string]any)
			if labels := u.GetAdd().MetricLabels; len(labels) > 0 {
				set := map[string]any{}
				for k, v := range labels {
					set[k] = v
				}
				e["set_labels"] = set
			}
			held[addrText(w.Addr)] = e
		}
		for _, a := range u.GetRemove().GetAddrs() {
			delete(held, addrText(a))
		}
	}
	list := []any{}
	for _, e := range held {
		list = append(list, e)
	}
	sortAny(list)
	return list
}

// joined sorts addresses, and makes one of neighbouring adds, or removes, of
// different addresses: a change may be split.
func joined(messages []any) []any {
	out := []any{}
	for _, m := range messages {
		message := m.(map[string]any)
		if len(out) == 0 || !join(out[len(out)-1].(map[string]any), message) {
			out = append(out, message)
		}
	}
	for _, m := range out {
		for _, set := range m.(map[string]any) {
			if set, ok := set.(map[string]any); ok {
				sortAny(set["addrs"])
			}
		}
		if ref, ok := m.(map[string]any)["profile_ref"].(map[string]any); ok {
			delete(ref["resource"].(map[string]any), "kind")
		}
	}
	return out
}

func join(into, message map[string]any) bool {
	for _, kind := range []string{"add", "remove"} {
		a, _ := into[kind].(map[string]any)
		b, _ := message[kind].(map[string]any)
		if a == nil || b == nil || !reflect.DeepEqual(a["metric_labels"], b["metric_labels"]) {
			continue
		}
		first, _ := a["addrs"].([]any)
		second, _ := b["addrs"].([]any)
		if len(first) == 0 || len(second) == 0 || slices.ContainsFunc(first, func(x any) bool {
			return slices.ContainsFunc(second, func(y any) bool { return address(x) == address(y) })
		}) {
			return false
		}
		a["addrs"] = append(first, second...)
		return true
	}
	return false
}

func address(item any) string {
	if weighted, ok := item.(map[string]any); ok {
		return fmt.Sprint(weighted["addr"])
	}
	return fmt.Sprint(item)
}

func sortAny(list any) {
	items, _ := list.([]any)
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(address(a), address(b)) })
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
	case protoreflect.FloatKind:
		short, _ := strconv.ParseFloat(strconv.FormatFloat(value.Float(), 'g', -1, 32), 64)
		return short
	case protoreflect.BoolKind:
		return value.Bool()
	default:
		return value.Interface()
	}
}
