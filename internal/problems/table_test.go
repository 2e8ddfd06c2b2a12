package problems

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var (
	web = Object{Group: "policy.linkerd.io", Version: "v1beta3", Kind: "Server", Namespace: "default", Name: "web"}
	api = Object{Group: "policy.linkerd.io", Version: "v1beta3", Kind: "Server", Namespace: "default", Name: "api"}
)

// desk is a table with a clock that stands still until it is moved, and a log.
type desk struct {
	*Table
	now      time.Time
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), registry: prometheus.NewRegistry()}
	log := slog.New(slog.NewTextHandler(&d.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	var err error
	d.Table, err = New(Config{Log: log, Registerer: d.registry, Now: func() time.Time { return d.now }})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lines are what was logged since the last call.
func (d *desk) lines() []string {
	defer d.log.Reset()
	text := strings.TrimSpace(d.log.String())
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (d *desk) texts() []string {
	var texts []string
	for _, p := range d.List() {
		texts = append(texts, p.String())
	}
	return texts
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Saying a problem again changes nothing; one that is not said again is mended.
func TestSay(t *testing.T) {
	d := newDesk(t)
	bad := Problem{Object: web, Field: "spec.port", Message: `"x" is no port`, Instead: "the Server has no port", Severity: Error}
	d.Say("decode", "web", bad)
	want(t, "log", d.lines(), []string{
		`level=WARN msg="\"x\" is no port" source=decode object="Server default/web" group=policy.linkerd.io field=spec.port instead="the Server has no port"`})
	start := d.now
	d.now = start.Add(time.Hour)
	d.Say("decode", "web", bad)
	want(t, "log of what is said again", d.lines(), nil)
	stored := bad
	stored.Source, stored.Since = "decode", start
	want(t, "list", d.List(), []Problem{stored})

	other := bad
	other.Message = "0 is no port"
	d.Say("decode", "web", other)
	want(t, "log of another problem in its place", d.lines(), []string{
		`level=WARN msg="0 is no port" source=decode object="Server default/web" group=policy.linkerd.io field=spec.port instead="the Server has no port"`})
	want(t, "what remains", d.texts(), []string{"Server default/web: spec.port: 0 is no port; the Server has no port"})

	d.Say("decode", "web")
	want(t, "log of the end", d.lines(), []string{
		`level=INFO msg="mended: 0 is no port" source=decode object="Server default/web" group=policy.linkerd.io field=spec.port instead="the Server has no port"`})
	want(t, "list of the end", d.List(), nil)
	if len(d.sources["decode"].said) != 0 || len(d.sources["decode"].entries) != 0 {
		t.Error("the table still remembers")
	}
}

// Two subjects that say the same have one problem, until the last lets go of it.
func TestShared(t *testing.T) {
	d := newDesk(t)
	bad := Problem{Object: web, Message: "bad"}
	d.Say("destination", "view 1", bad)
	d.Say("destination", "view 2", bad, Problem{Object: api, Message: "bad too"})
	want(t, "both", d.texts(), []string{"Server default/api: bad too", "Server default/web: bad"})
	d.Say("destination", "view 1")
	want(t, "one left", d.texts(), []string{"Server default/api: bad too", "Server default/web: bad"})
	want(t, "number of lines", len(d.lines()), 2)
	d.Say("destination", "view 2", bad)
	want(t, "one problem less", d.texts(), []string{"Server default/web: bad"})
	d.Say("destination", "view 2")
	want(t, "none left", d.texts(), nil)
}

// Sources do not touch what others say.
func TestSources(t *testing.T) {
	d := newDesk(t)
	d.Say("decode", "web", Problem{Object: web, Message: "no"})
	d.Say("status", "web", Problem{Object: web, Message: "neither"})
	d.Say("status", "api", Problem{Object: api, Message: "nor this"})
	d.Say("decode", "web")
	want(t, "of web", len(d.Of(Object{Group: web.Group, Kind: web.Kind, Namespace: "default", Name: "web"})), 1)
	if err := testutil.GatherAndCompare(d.registry, strings.NewReader(`
# HELP linkerd_lite_problems Problems known at present.
# TYPE linkerd_lite_problems gauge
linkerd_lite_problems{kind="Server",source="status"} 2
`), "linkerd_lite_problems"); err != nil {
		t.Error(err)
	}
	d.Keep("status", func(subject string) bool { return subject == "api" })
	want(t, "kept", d.texts(), []string{"Server default/api: nor this"})
}

// A cluster that is not linked any more takes its problems along.
func TestLeave(t *testing.T) {
	d := newDesk(t)
	far := web
	far.Cluster = "east"
	d.Say("decode", "east/web", Problem{Object: far, Message: "no"})
	d.Say("decode", "/web", Problem{Object: web, Message: "no"})
	d.lines()
	d.Say("destination", "east/view", Problem{Object: far, Message: "nor this"})
	d.lines()
	d.Retire("destination", "east/view")
	d.Leave("east")
	want(t, "left", d.texts(), []string{"Server default/web: no"})
	want(t, "log", d.lines(), nil)
	d.Say("destination", "east/view", Problem{Object: far, Message: "nor this"})
	want(t, "lines of a cluster that is linked again", len(d.lines()), 1)
}

// What nobody looks at for a while is not known meanwhile, and no news when it
// is seen again.
func TestRetire(t *testing.T) {
	d := newDesk(t)
	start := d.now
	d.Say("destination", "view", Problem{Object: web, Message: "bad"})
	want(t, "lines", len(d.lines()), 1)
	d.Retire("destination", "view")
	want(t, "known", d.texts(), nil)
	d.now = start.Add(time.Hour)
	d.Say("destination", "another view", Problem{Object: web, Message: "bad"})
	want(t, "lines of what is seen again", d.lines(), nil)
	want(t, "since", d.List()[0].Since, start)
	d.Say("destination", "another view")
	d.Say("destination", "another view", Problem{Object: web, Message: "bad"})
	want(t, "lines of what was mended and broken", len(d.lines()), 2)
}

// A flood is counted, does not crowd out others, and leaves room when it goes.
func TestBounds(t *testing.T) {
	d := newDesk(t)
	for i := range 2 * maxPerSource {
		d.Say("flood", fmt.Sprint(i), Problem{Object: web, Message: fmt.Sprint(i)})
	}
	d.Say("decode", "web", Problem{Object: web, Message: "seen"})
	want(t, "kept", len(d.List()), maxPerSource+1)
	want(t, "left out", testutil.ToFloat64(d.leftOut.WithLabelValues("flood")), float64(maxPerSource))
	d.Say("flood", "0", Problem{Object: web, Message: "in the place of one that goes"})
	want(t, "kept then", len(d.List()), maxPerSource+1)
	d.Keep("flood", func(string) bool { return false })
	want(t, "kept in the end", d.texts(), []string{"Server default/web: seen"})

	var many []Problem
	for i := range 2 * maxPerSubject {
		many = append(many, Problem{Object: web, Message: fmt.Sprint(i)})
	}
	d.Say("decode", "web", many...)
	want(t, "of one subject", len(d.List()), maxPerSubject)
}

// Foreign text is printable and of bounded length (F8: no control character
// of foreign text reaches a terminal).
func TestForeignText(t *testing.T) {
	d := newDesk(t)
	d.Say("decode", "x", Problem{Object: Object{Kind: "Server", Name: "a\x1b[2Jb"}, Message: "one\ntwo \xff\u202e" + strings.Repeat("é", maxText)})
	p := d.List()[0]
	want(t, "name", p.Object.Name, "a\uFFFD[2Jb")
	if !strings.HasPrefix(p.Message, "one two \uFFFD\uFFFDé") || !strings.HasSuffix(p.Message, "é…") || len(p.Message) > maxText+8 {
		t.Errorf("message of %d bytes: %.40q", len(p.Message), p.Message)
	}
}

// A nil table takes everything and knows nothing.
func TestNilTable(t *testing.T) {
	var none *Table
	none.Say("decode", "x", Problem{Message: "no"})
	none.Keep("decode", func(string) bool { return true })
	if none.List() != nil || none.Of(web) != nil {
		t.Error("a nil table remembers")
	}
}

// Many may speak and read at once.
func TestConcurrent(t *testing.T) {
	d := newDesk(t)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 200 {
				d.Say("decode", fmt.Sprint(g, i%3), Problem{Object: web, Message: fmt.Sprint(i % 2)})
				d.List()
			}
			for i := range 3 {
				d.Say("decode", fmt.Sprint(g, i))
			}
		})
	}
	group.Wait()
	want(t, "left", d.List(), nil)
}
