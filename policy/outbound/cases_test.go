package outbound

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/policy"
	"github.com/linkerd-lite/linkerd-lite/test/recorded"
)

// TestCases plays the recorded conversations of testdata/cases against the
// views, without an API server.
func TestCases(t *testing.T) {
	cases, err := recorded.Load("testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			bubble(t, DefaultConfig(), func(t *testing.T, cluster *cluster) {
				p := &player{cluster: cluster, compare: c.Compare(), streams: map[string]*stream{}, clients: map[string]*recorded.Client{}}
				for _, step := range c.Steps {
					step.Content = fill(step.Content)
					p.play(t, step)
				}
				for name, client := range p.clients {
					p.hear(name)
					if rest := client.Rest(); len(rest) > 0 {
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
	compare string
	streams map[string]*stream
	clients map[string]*recorded.Client
}

func (p *player) play(t *testing.T, step recorded.Step) {
	switch step.Verb {
	case "apply":
		for _, doc := range step.Documents() {
			p.put(withNamespace(t, doc))
		}
		p.settle()
	case "delete":
		for _, doc := range step.Documents() {
			object := object(t, withNamespace(t, doc))
			kind := object["kind"].(string)
			if kind == "HTTPRoute" && strings.HasPrefix(object["apiVersion"].(string), "gateway") {
				kind = "GatewayHTTPRoute"
			}
			meta := object["metadata"].(map[string]any)
			p.remove(fmt.Sprintf("%s/%s/%s", kind, meta["namespace"], meta["name"]))
		}
	case "open":
		p.call(t, step.Name, step.Content)
		p.clients[step.Name] = recorded.NewClient(p.compare)
	case "want":
		p.want(t, step)
	case "close":
		p.streams[step.Name].cancel()
		p.settle()
	case "sleep":
	default:
		t.Fatalf("unknown step %q", step.File)
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

// hear hands on what a call has received.
func (p *player) hear(name string) {
	for _, m := range p.streams[name].take() {
		p.clients[name].Receive(m)
	}
}

func (p *player) want(t *testing.T, step recorded.Step) {
	t.Helper()
	p.hear(step.Name)
	if err, ended := p.streams[step.Name].result(); ended {
		p.clients[step.Name].End(err)
	}
	diff, err := p.clients[step.Name].Want(step.Content)
	if err != nil {
		t.Fatalf("%s: %v", step.File, err)
	}
	if diff != "" {
		t.Fatalf("%s (-want +got):\n%s", step.File, diff)
	}
}
