package printable

import (
	"strings"
	"testing"
	"unicode"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// No control character of foreign text reaches a terminal.
func TestText(t *testing.T) {
	rulebook.Covers(t, "F8")
	tests := []struct{ name, in, text, lines string }{
		{"plain", "a b/c.yaml", "a b/c.yaml", "a b/c.yaml"},
		{"other scripts", "größe ☃ 日本", "größe ☃ 日本", "größe ☃ 日本"},
		{"escape sequence", "a\x1b]0;x\a\x1b[2Jb", `a\x1b]0;x\a\x1b[2Jb`, `a\x1b]0;x\a\x1b[2Jb`},
		{"carriage return", "a\rb", `a\rb`, `a\rb`},
		{"line break", "a\nmanifests: b", `a\nmanifests: b`, "a\nmanifests: b"},
		{"tab", "a\tb", `a\tb`, "a\tb"},
		{"control characters of ISO 8859", "a\u009b2Jb", `a\u009b2Jb`, `a\u009b2Jb`},
		{"the same as a bare byte", "a\x9b2Jb", `a\x9b2Jb`, `a\x9b2Jb`},
		{"direction override", "a\u202eb", `a\u202eb`, `a\u202eb`},
		{"line separator", "a\u2028b", `a\u2028b`, `a\u2028b`},
		{"delete", "a\x7fb", `a\x7fb`, `a\x7fb`},
		{"replacement character", "a\ufffdb", "a\ufffdb", "a\ufffdb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Text(test.in); got != test.text {
				t.Errorf("Text: got %q, want %q", got, test.text)
			}
			if got := Lines(test.in); got != test.lines {
				t.Errorf("Lines: got %q, want %q", got, test.lines)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\xff\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Text(s) {
			if !unicode.IsPrint(r) {
				t.Errorf("%q of %q is in the text", r, s)
			}
		}
		if strings.ContainsFunc(Lines(s), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
			t.Errorf("a control character of %q is in the lines", s)
		}
	})
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a\x1b": `a\x1b`, strings.Repeat("a", 120): strings.Repeat("a", 120), strings.Repeat("a", 121): strings.Repeat("a", 120) + "…",
		strings.Repeat("a", 119) + "ü and more": strings.Repeat("a", 119) + "…",
	} {
		if got := Short(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
