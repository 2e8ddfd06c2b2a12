package recorded

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
)

// Client is what the client of one call has received.
type Client struct {
	compare string

	mu       sync.Mutex
	messages []proto.Message
	// passed is how many messages earlier wants took.
	passed int
	ended  bool
	end    *status.Status
	news   chan struct{}
}

// NewClient returns the client of a call that is compared as Case.Compare says.
func NewClient(compare string) *Client {
	return &Client{compare: compare, news: make(chan struct{})}
}

// Receive notes a message.
func (c *Client) Receive(m proto.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, m)
	c.tell()
}

// End notes the end of the call.
func (c *Client) End(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.end = true, status.Convert(err) // nil for OK, whose methods work
	c.tell()
}

func (c *Client) tell() {
	close(c.news)
	c.news = make(chan struct{})
}

// News is closed by the next message and by the end of the call.
func (c *Client) News() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

// Want compares what was received with a want step, and returns "" or the
// difference. What is equal counts as taken.
func (c *Client) Want(content string) (string, error) {
	var want map[string]any
	if err := json.Unmarshal([]byte(content), &want); err != nil {
		return "", fmt.Errorf("read want: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	got := map[string]any{}
	if c.compare == "state" {
		got["state"] = c.state()
	} else {
		got["messages"] = c.sequence(render(c.messages[c.passed:]))
		wanted, _ := want["messages"].([]any)
		want["messages"] = c.sequence(append([]any{}, wanted...))
	}
	if c.ended {
		got["status"] = map[string]any{"code": c.end.Code().String(), "message": c.end.Message()}
	}
	normalise(want)
	normalise(got)
	diff := cmp.Diff(want, got)
	if diff == "" {
		c.passed = len(c.messages)
	}
	return diff, nil
}

// Rest returns the messages that no want has taken.
func (c *Client) Rest() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compare == "state" {
		return nil
	}
	return render(c.messages[c.passed:])
}

func render(messages []proto.Message) []any {
	rendered := []any{}
	for _, m := range messages {
		rendered = append(rendered, Render(m.ProtoReflect()))
	}
	return rendered
}

// state is what the client holds after all messages: endpoints of
// Destination.Get, the last message of everything else.
func (c *Client) state() map[string]any {
	if len(c.messages) == 0 {
		return map[string]any{}
	}
	if _, ok := c.messages[0].(*destination.Update); !ok {
		return map[string]any{"last": Render(c.messages[len(c.messages)-1].ProtoReflect())}
	}
	held := map[string]any{}
	for _, m := range c.messages {
		u := m.(*destination.Update)
		for _, w := range u.GetAdd().GetAddrs() {
			e := Render(w.ProtoReflect()).(map[string]any)
			if labels := u.GetAdd().GetMetricLabels(); len(labels) > 0 {
				set := map[string]any{}
				for key, value := range labels {
					set[key] = value
				}
				e["set_labels"] = set
			}
			held[addressOf(e)] = e
		}
		for _, a := range u.GetRemove().GetAddrs() {
			delete(held, Render(a.ProtoReflect()).(string))
		}
	}
	endpoints := []any{}
	for _, e := range held {
		endpoints = append(endpoints, e)
	}
	return map[string]any{"endpoints": endpoints}
}

// sequence makes one of neighbouring adds, or removes, of different addresses,
// since a change may be split; "exact" does not.
func (c *Client) sequence(messages []any) []any {
	if c.compare == "exact" {
		return messages
	}
	out := []any{}
	for _, m := range messages {
		message, _ := m.(map[string]any)
		if len(out) == 0 || !join(out[len(out)-1].(map[string]any), message) {
			out = append(out, message)
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
		known := func(x any) bool {
			return slices.ContainsFunc(first, func(y any) bool { return addressOf(x) == addressOf(y) })
		}
		if len(first) == 0 || len(second) == 0 || slices.ContainsFunc(second, known) {
			return false
		}
		a["addrs"] = append(first, second...)
		return true
	}
	return false
}

func addressOf(item any) string {
	if weighted, ok := item.(map[string]any); ok {
		return fmt.Sprint(weighted["addr"])
	}
	return fmt.Sprint(item)
}

// normalise sorts what is a set on the wire, and leaves out what is free.
func normalise(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			normalise(value)
			switch list, _ := value.([]any); key {
			case "addrs", "endpoints":
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(addressOf(a), addressOf(b)) })
			case "authorizations":
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		if list, ok := v["endpoints"].([]any); ok && len(list) == 0 {
			delete(v, "endpoints")
		}
		if ref, ok := v["profile_ref"].(map[string]any); ok {
			if resource, ok := ref["resource"].(map[string]any); ok {
				delete(resource, "kind")
			}
		}
	case []any:
		for _, item := range v {
			normalise(item)
		}
	}
}
