package recorded

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/objects"
)

// Call is a call to a part of this process.
type Call interface {
	// Messages returns what was received since the last time.
	Messages() []proto.Message
	// Status is what the call has ended with, if it has.
	Status() (*status.Status, bool)
	Cancel()
}

// Player plays cases against a part of this process, in a synctest bubble.
type Player struct {
	// Put stores an object, Remove forgets one by its name, see objects.Name.
	Put    func(object string)
	Remove func(names ...string)
	// Settle waits until all who are affected have heard of what was stored; Remove
	// and Open settle by themselves.
	Settle func()
	// Open begins a call of a method.
	Open func(method string, request proto.Message) Call
}

// Each runs a test for each of the cases that match a pattern, by their names.
func Each(t *testing.T, pattern string, test func(t *testing.T, c Case)) {
	t.Helper()
	cases, err := Load(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if numbers := c.Covers(); numbers != nil {
				rulebook.Covers(t, numbers...)
			}
			test(t, c)
		})
	}
}

// Play plays a case.
func (p Player) Play(t *testing.T, c Case) {
	t.Helper()
	fill := placeholders()
	calls, clients := map[string]Call{}, map[string]*Client{}
	hear := func(name string) *Client {
		for _, m := range calls[name].Messages() {
			clients[name].Receive(m)
		}
		return clients[name]
	}
	for _, step := range c.Steps {
		step.Content = fill.Replace(step.Content)
		switch step.Verb {
		case "apply":
			for _, object := range inNamespace(t, step) {
				p.Put(object)
			}
			p.Settle()
		case "delete":
			for _, object := range inNamespace(t, step) {
				p.Remove(objects.Name(t, object))
			}
		case "open":
			method, request, err := Request(step.Content)
			if err != nil {
				t.Fatalf("%s: %v", step.File, err)
			}
			calls[step.Name], clients[step.Name] = p.Open(string(method.Name()), request), NewClient(c.Compare())
		case "want":
			client := hear(step.Name)
			if end, ended := calls[step.Name].Status(); ended {
				client.End(end.Err())
			}
			diff, err := client.Want(step.Content)
			if err != nil {
				t.Fatalf("%s: %v", step.File, err)
			}
			if diff != "" {
				t.Fatalf("%s (-want +got):\n%s", step.File, diff)
			}
		case "close":
			calls[step.Name].Cancel()
			p.Settle()
		case "sleep":
			time.Sleep(time.Minute) // in the bubble's time
		default:
			t.Fatalf("unknown step %q", step.File)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		if rest := hear(name).Rest(); len(rest) > 0 {
			t.Errorf("%s said more: %v", name, rest)
		}
	}
}

// inNamespace returns the objects of a step as JSON. Those without a namespace
// are in that of the case.
func inNamespace(t *testing.T, step Step) []string {
	t.Helper()
	var texts []string
	for _, doc := range step.Documents() {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatalf("%s: %v in:\n%s", step.File, err, doc)
		}
		meta := object["metadata"].(map[string]any)
		if kind := object["kind"]; meta["namespace"] == nil && kind != "Node" && kind != "Namespace" {
			meta["namespace"] = "ns"
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// placeholders are values that tests can tell apart.
func placeholders() *strings.Replacer {
	pairs := []string{"$NS", "ns", "$KUBECONFIG", ""}
	for i := 40; i > 0; i-- { // $IP10 before $IP1
		pairs = append(pairs, fmt.Sprintf("$IP%d", i), fmt.Sprintf("10.128.0.%d", 100+i), fmt.Sprintf("$SIX%d", i), fmt.Sprintf("fd00:c0f0::%d", 100+i))
		if i < 10 {
			pairs = append(pairs, fmt.Sprintf("$CIP%d", i), fmt.Sprintf("10.96.0.%d", 100+i))
		}
	}
	return strings.NewReplacer(pairs...)
}
