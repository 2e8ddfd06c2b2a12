package destination

import (
	"testing"

	"google.golang.org/grpc/codes"
)

// Scenarios are told in steps: what happens, and what each stream hears of it.
type step struct {
	apply  []string
	remove []string
	want   []string
}

type scenario struct {
	name   string
	edit   func(*Config)
	before []string
	path   string
	token  string
	steps  []step
}

// run plays the scenario; the first step is what the stream hears when it opens.
func (sc scenario) run(t *testing.T) {
	config := testConfig()
	if sc.edit != nil {
		sc.edit(&config)
	}
	bubble(t, config, func(t *testing.T, c *cluster) {
		c.apply(sc.before...)
		path := sc.path
		if path == "" {
			path = name1
		}
		s := c.get(path, sc.token)
		sc.play(t, c, s.want, func() {
			// A client that comes now hears the same in one message.
			fresh := c.get(path, sc.token)
			s.wantSameAs(fresh)
			fresh.Cancel()
		})
		s.wantOpen()
	})
}

// play plays the steps to a stream that has just opened; then is called after each.
func (sc scenario) play(t *testing.T, c *cluster, want func(messages ...string), then func()) {
	t.Helper()
	want(sc.steps[0].want...)
	for i, step := range sc.steps[1:] {
		c.apply(step.apply...)
		if len(step.remove) > 0 {
			c.remove(step.remove...)
		}
		if want(step.want...); t.Failed() {
			t.Fatalf("in step %d", i+1)
		}
		then()
	}
}

// wantSameAs compares what two clients hold in the end.
func (s *getStream) wantSameAs(fresh *getStream) {
	s.t.Helper()
	if status, ended := fresh.Status(); ended && status.Code() == codes.NotFound {
		return
	}
	old, now := s.all(), fresh.all()
	if old != now {
		s.t.Errorf("the stream holds\n%s\na new one holds\n%s", old, now)
	}
}

var web = []string{serviceYAML("name1", "{port: 8989}"), podYAML("name1-1", "10.0.0.12")}

func withWeb(more ...string) []string { return append(append([]string{}, web...), more...) }
