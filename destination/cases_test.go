package destination

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
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
			bubble(t, caseConfig(t, c.Server()), func(t *testing.T, cluster *cluster) {
				p := &player{cluster: cluster, compare: c.Compare(), streams: map[string]*stream[proto.Message]{}, clients: map[string]*recorded.Client{}}
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
			p.delete(t, withNamespace(t, doc))
		}
	case "open":
		p.open(t, step.Name, step.Content)
	case "want":
		p.want(t, step)
	case "close":
		p.streams[step.Name].cancel()
		p.settle()
	case "sleep":
		time.Sleep(time.Minute) // in the bubble's time
	default:
		t.Fatalf("unknown step %q", step.File)
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
	p.clients[name] = recorded.NewClient(p.compare)
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

// hear hands on what a call has received.
func (p *player) hear(name string) {
	for _, m := range p.streams[name].take() {
		p.clients[name].Receive(m)
	}
}

func (p *player) want(t *testing.T, step recorded.Step) {
	client := p.clients[step.Name]
	p.hear(step.Name)
	if status, ended := p.streams[step.Name].status(); ended {
		client.End(status.Err())
	}
	diff, err := client.Want(step.Content)
	if err != nil {
		t.Fatalf("%s: %v", step.File, err)
	}
	if diff != "" {
		t.Fatalf("%s (-want +got):\n%s", step.File, diff)
	}
}
