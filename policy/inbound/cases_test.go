package inbound

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
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
					step.Content = strings.ReplaceAll(step.Content, "$NS", "ns")
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
			if doc, ok := withNamespace(t, doc); ok {
				p.put(doc)
			}
		}
		p.settle()
	case "delete":
		for _, doc := range step.Documents() {
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
		p.open(t, step.Name, step.Content)
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
