package recorded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

func addr(last uint32) *net.TcpAddress {
	return &net.TcpAddress{Ip: &net.IPAddress{Ip: &net.IPAddress_Ipv4{Ipv4: 10<<24 + last}}, Port: 80}
}

func add(label string, lasts ...uint32) proto.Message {
	set := &destination.WeightedAddrSet{MetricLabels: map[string]string{"service": label}}
	for _, last := range lasts {
		set.Addrs = append(set.Addrs, &destination.WeightedAddr{Addr: addr(last), Weight: 1})
	}
	return &destination.Update{Update: &destination.Update_Add{Add: set}}
}

func remove(last uint32) proto.Message {
	return &destination.Update{Update: &destination.Update_Remove{Remove: &destination.AddrSet{Addrs: []*net.TcpAddress{addr(last)}}}}
}

func TestWant(t *testing.T) {
	both := `{"messages": [{"add": {"addrs": [{"addr": "10.0.0.2:80", "weight": 1}, {"addr": "10.0.0.1:80", "weight": 1}], "metric_labels": {"service": "a"}}}]}`
	open, ok, failed := errors.New("still open"), error(nil), status.Error(codes.NotFound, "gone")
	for _, test := range []struct {
		name, compare string
		messages      []proto.Message
		end           error
		want          string
		differs       bool
	}{
		{name: "silence", compare: "messages", end: open, want: `{"messages": []}`},
		{name: "not silence", compare: "messages", messages: []proto.Message{add("a", 1)}, end: open, want: `{"messages": []}`, differs: true},
		{name: "in another order", compare: "messages", messages: []proto.Message{add("a", 1, 2)}, end: open, want: both},
		{name: "split", compare: "messages", messages: []proto.Message{add("a", 1), add("a", 2)}, end: open, want: both},
		{name: "split, exactly", compare: "exact", messages: []proto.Message{add("a", 1), add("a", 2)}, end: open, want: both, differs: true},
		{name: "the same address twice", compare: "messages", messages: []proto.Message{add("a", 1, 2), add("a", 2)}, end: open, want: both, differs: true},
		{name: "other labels", compare: "messages", messages: []proto.Message{add("a", 1), add("b", 2)}, end: open, want: both, differs: true},
		{name: "another weight", compare: "messages", messages: []proto.Message{add("a", 1, 2)}, end: open, want: `{"messages": [{"add": {"addrs": [{"addr": "10.0.0.1:80", "weight": 1}, {"addr": "10.0.0.2:80", "weight": 2}], "metric_labels": {"service": "a"}}}]}`, differs: true},
		{name: "ended", compare: "messages", end: ok, want: `{"messages": [], "status": {"code": "OK", "message": ""}}`},
		{name: "ended, but should not", compare: "messages", end: ok, want: `{"messages": []}`, differs: true},
		{name: "open, but should not be", compare: "messages", end: open, want: `{"messages": [], "status": {"code": "OK", "message": ""}}`, differs: true},
		{name: "failed", compare: "messages", end: failed, want: `{"messages": [], "status": {"code": "NotFound", "message": "gone"}}`},
		{name: "failed otherwise", compare: "messages", end: failed, want: `{"messages": [], "status": {"code": "NotFound", "message": "away"}}`, differs: true},
		{name: "what is held", compare: "state", messages: []proto.Message{add("a", 1, 2), remove(1)}, end: open, want: `{"state": {"endpoints": [{"addr": "10.0.0.2:80", "weight": 1, "set_labels": {"service": "a"}}]}}`},
		{name: "nothing is held", compare: "state", messages: []proto.Message{add("a", 1), remove(1)}, end: open, want: `{"state": {"endpoints": []}}`},
		{name: "more is held", compare: "state", messages: []proto.Message{add("a", 1, 2)}, end: open, want: `{"state": {"endpoints": [{"addr": "10.0.0.2:80", "weight": 1, "set_labels": {"service": "a"}}]}}`, differs: true},
		{name: "the last of other messages", compare: "state", messages: []proto.Message{&destination.DestinationProfile{}, &destination.DestinationProfile{OpaqueProtocol: true}}, end: open,
			want: `{"state": {"last": {"opaque_protocol": true}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := NewClient(test.compare)
			for _, m := range test.messages {
				c.Receive(m)
			}
			if test.end != open {
				c.End(test.end)
			}
			diff, err := c.Want(test.want)
			if err != nil {
				t.Fatal(err)
			}
			if (diff != "") != test.differs {
				t.Errorf("difference %q, want one: %v", diff, test.differs)
			}
			taken := !test.differs || test.compare == "state" || len(test.messages) == 0
			if rest := len(c.Rest()); (rest == 0) != taken {
				t.Errorf("%d messages are left", rest)
			}
		})
	}
}

func TestRender(t *testing.T) {
	message := &destination.WeightedAddr{
		Addr:         &net.TcpAddress{Ip: &net.IPAddress{Ip: &net.IPAddress_Ipv6{Ipv6: &net.IPv6{First: 0x20010db8 << 32, Last: 1}}}, Port: 8080},
		Weight:       10000,
		MetricLabels: map[string]string{"pod": "p"},
		ProtocolHint: &destination.ProtocolHint{Protocol: &destination.ProtocolHint_H2_{H2: &destination.ProtocolHint_H2{}}},
		Http2:        &destination.Http2ClientParams{KeepAlive: &destination.Http2ClientParams_KeepAlive{Interval: durationpb.New(10e9), WhileIdle: true}},
	}
	want := map[string]any{
		"addr": "[2001:db8::1]:8080", "weight": float64(10000), "metric_labels": map[string]any{"pod": "p"},
		"protocol_hint": map[string]any{"h2": map[string]any{}},
		"http2":         map[string]any{"keep_alive": map[string]any{"interval": "10s", "while_idle": true}},
	}
	if diff := cmp.Diff(any(want), Render(message.ProtoReflect())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	budget := Render((&destination.RetryBudget{RetryRatio: 0.2}).ProtoReflect())
	if diff := cmp.Diff(any(map[string]any{"retry_ratio": 0.2}), budget); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	text := "# A title: with a colon\n# covers: D01\n# compare: state\n-- 01-apply.yaml --\nkind: A\n---\nkind: B\n-- 02-open-a.json --\n{}\n-- 03-sleep.txt --\n1s\n"
	if err := os.WriteFile(filepath.Join(dir, "one.txtar"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := Load(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{File: "01-apply.yaml", Verb: "apply", Content: "kind: A\n---\nkind: B\n"},
		{File: "02-open-a.json", Verb: "open", Name: "a", Content: "{}\n"},
		{File: "03-sleep.txt", Verb: "sleep", Content: "1s\n"},
	}
	if diff := cmp.Diff(want, cases[0].Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if c := cases[0]; c.Name != "one" || c.Compare() != "state" || c.Server() != "default" || len(c.Steps[0].Documents()) != 2 {
		t.Errorf("%s compares %s for %s", c.Name, c.Compare(), c.Server())
	}
	if _, err := Load(filepath.Join(dir, "*.none")); err == nil {
		t.Error("no cases are no error")
	}
}
