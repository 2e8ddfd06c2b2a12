package state

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

func colouredService(name, uid, colour string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), Labels: map[string]string{"colour": colour},
	}}
}

// said are the problems known, one line each.
func said(s *State) string {
	var lines []string
	for _, p := range s.Problems().List() {
		lines = append(lines, p.Source+": "+p.String())
	}
	return strings.Join(lines, "\n")
}

// A function of ours that panics at one object keeps that object's last
// version, says so, and goes on with all others; the object mended, all is well.
func TestFaultConcernsOneObject(t *testing.T) {
	for _, where := range []string{"form", "index"} {
		t.Run(where, func(t *testing.T) {
			s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Services.KindInfo}})
			if err != nil {
				t.Fatal(err)
			}
			Put(s, Services, colouredService("early", "1", "bad"))
			byColour := NewIndex(0, "colour", func(c *coloured) []string {
				if where == "index" && c.colour == "bad" {
					panic("no such colour")
				}
				return []string{c.colour}
			})
			kind := Derive(s, "coloured", Services, func(source *corev1.Service, _ *coloured) *coloured {
				colour := source.Labels["colour"]
				if where == "form" && colour == "bad" {
					panic("no such colour")
				}
				return &coloured{source, colour}
			}, byColour)
			fault := "a fault of linkerd-lite, please report it: no such colour (at problems_test.go:"
			for _, step := range []struct {
				name, uid, colour string
				// want is the colour that the derived object has, "" without one.
				want, problem string
			}{
				{"early", "1", "red", "red", ""},
				{"early", "1", "bad", "red", problems.Instead(true)},
				{"other", "2", "green", "green", problems.Instead(true)},
				{"early", "3", "bad", "", problems.Instead(false)}, // another object of that name
				{"early", "3", "blue", "blue", ""},
			} {
				Put(s, Services, colouredService(step.name, step.uid, step.colour))
				got, _ := Get(s.Snapshot().Reader(), kind, "ns", step.name)
				colour := ""
				if got != nil {
					colour = got.colour
				}
				if colour != step.want {
					t.Errorf("%+v: colour %q", step, colour)
				}
				text := said(s)
				if step.problem == "" && text != "" || !strings.HasSuffix(text, step.problem) {
					t.Errorf("%+v: problems %q", step, text)
				}
				if text != "" && (!strings.HasPrefix(text, "coloured: Service ns/early: "+fault) || strings.Contains(text, "\n")) {
					t.Errorf("%+v: problems %q", step, text)
				}
			}
			Put(s, Services, colouredService("early", "3", "bad"))
			Remove(s, Services, "ns", "early")
			if text := said(s); text != "" {
				t.Errorf("problems of an object that is gone: %s", text)
			}
		})
	}
}

// What a form finds wrong is known as long as that version is there.
func TestJudgingForm(t *testing.T) {
	s, err := New(Config{Cluster: "east", Kinds: []*KindInfo{&Services.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	kind := DeriveJudging(s, "coloured", Services, func(source *corev1.Service, previous *coloured) (*coloured, []problems.Problem) {
		colour := source.Labels["colour"]
		if colour == "bad" {
			return previous, []problems.Problem{{Field: "metadata.labels[colour]", Message: "no such colour", Instead: "the last one"}}
		}
		return &coloured{source, colour}, nil
	})
	for _, step := range []struct{ colour, want, problems string }{
		{"red", "red", ""},
		{"bad", "red", "coloured: Service ns/web in east: metadata.labels[colour]: no such colour; the last one"},
		{"green", "green", ""},
	} {
		Put(s, Services, colouredService("web", "1", step.colour))
		if got, _ := Get(s.Snapshot().Reader(), kind, "ns", "web"); got.colour != step.want {
			t.Errorf("%+v: colour %q", step, got.colour)
		}
		if got := said(s); got != step.problems {
			t.Errorf("%+v: problems %q", step, got)
		}
	}
}

// A revision orders changes and the snapshots that hold them.
func TestRevisions(t *testing.T) {
	s, err := New(Config{Cluster: LocalCluster, Kinds: []*KindInfo{&Services.KindInfo}})
	if err != nil {
		t.Fatal(err)
	}
	sub := s.Subscribe()
	before := s.Snapshot()
	Put(s, Services, colouredService("a", "1", "red"))
	between := s.Snapshot()
	Put(s, Services, colouredService("b", "2", "red"))
	changes, _ := sub.Take()
	if len(changes) != 2 || before.Revision() >= changes[0].Revision || changes[0].Revision != between.Revision() || changes[1].Revision != between.Revision()+1 {
		t.Errorf("snapshots %d and %d, changes %+v", before.Revision(), between.Revision(), changes)
	}
	Remove(s, Services, "ns", "nobody")
	if got := s.Snapshot().Revision(); got != changes[1].Revision {
		t.Errorf("revision %d after nothing changed", got)
	}
}
