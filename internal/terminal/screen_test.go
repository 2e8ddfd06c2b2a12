package terminal

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rows are what a terminal shows after text with the two sequences that a
// screen uses to move: up, and clear to the end.
func rows(t *testing.T, text string) []string {
	t.Helper()
	var shown []string
	row := ""
	for len(text) > 0 {
		var up int
		if n, _ := fmt.Sscanf(text, "\x1b[%dA\x1b[J", &up); n == 1 {
			if up > len(shown) || row != "" {
				t.Fatalf("moves up %d rows of %d, behind %q", up, len(shown), row)
			}
			shown = shown[:len(shown)-up]
			text = text[strings.Index(text, "J")+1:]
			continue
		}
		if text[0] == '\n' {
			shown, row = append(shown, row), ""
		} else {
			row += text[:1]
		}
		text = text[1:]
	}
	return shown
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{out: &out, width: func() int { return 12 }}
	steps := []struct {
		do   func() error
		want []string
	}{
		{func() error { return s.Show([]string{"one 1", "two 1"}) }, []string{"one 1", "two 1"}},
		{func() error { return s.Show([]string{"one 2", "two 2", "a line that is too long"}) }, []string{"one 2", "two 2", "a line tha…"}},
		{func() error { _, err := fmt.Fprint(s, "said\nhalf "); return err }, []string{"said", "one 2", "two 2", "a line tha…"}},
		{func() error { _, err := fmt.Fprint(s, "a line\n"); return err }, []string{"said", "half a line", "one 2", "two 2", "a line tha…"}},
		{func() error { return s.Show([]string{"one 3"}) }, []string{"said", "half a line", "one 3"}},
		{func() error { s.Keep(); return nil }, []string{"said", "half a line", "one 3"}},
		{func() error { _, err := fmt.Fprint(s, "below\n"); return err }, []string{"said", "half a line", "one 3", "below"}},
	}
	for n, step := range steps {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, rows(t, out.String())); diff != "" {
			t.Errorf("after step %d (-want +shown):\n%s", n, diff)
		}
	}
}

// What needs attention has a colour and, for those who do not see it, a word.
func TestScreenColours(t *testing.T) {
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Warn("x")
	for _, test := range []struct{ line, word, colour string }{
		{"warning: not settled\n", "warning", "33"},
		{"manifests: warning: a.yaml: deprecated\n", "warning", "33"},
		{"manifests: drift: Service ns/web: being deleted\n", "drift", "33"},
		{"manifests: error: a.yaml:3: no such field\n", "error", "31"},
		{log.String(), "WARN", "33"},
		{"  apply    Service shop/cart\n", "apply", "32"},
		{"  prune    Service shop/cart\n", "prune", "33"},
		{"  failed   Service shop/cart\n", "failed", "31"},
		{"√ store 0.1 s\n", "√", "32"},
		{"applying nothing\n", "", ""},
		{"manifests: 1 applied\n", "", ""},
	} {
		want := test.line
		if test.word != "" {
			want = strings.Replace(test.line, test.word, "\x1b["+test.colour+";1m"+test.word+"\x1b[0m", 1)
		}
		if got := (&Screen{colour: true}).painted(test.line); got != want {
			t.Errorf("%q became %q, want %q", test.line, got, want)
		}
		if got := (&Screen{}).painted(test.line); got != test.line {
			t.Errorf("without colours %q became %q", test.line, got)
		}
	}
}
