package gateway

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Each construct of the syntax of Rust's regex crate. An expression is
// good, bad, or doubtful where this cannot be decided without the crate's
// tables.
func TestExpression(t *testing.T) {
	rulebook.Covers(t, "G5")
	for construct, lists := range map[string]struct{ good, bad, doubtful []string }{
		"characters":   {good: []string{``, `a`, `ü\S+`, "a\n.", `a}`, `a]`, `<a>`, `a#b c`, `\/a\/`, `\#\&\-\~\ \_\<\>`}, bad: []string{`\`, `\ü`, `\y`, `\Z`, `\C`, `\Qa.b\E`, `\G`, `\K`, `\h`, `\X`}},
		"numbers":      {good: []string{`\x41`, `\x{41}`, `\x{10FFFF}`, `\u0041`, `\u{1F600}`, `\U0001F600`, `\U{41}`}, bad: []string{`\x4`, `\xg1`, `\x{}`, `\x{110000}`, `\x{D800}`, `\u41`, `\012`, `\1`, `\8`, `\x{4`, `\x{+4}`}},
		"letters":      {good: []string{`\a\f\t\n\r\v`, `\d\D\s\S\w\W`, `\pL\PL`, `\p{Greek}`, `\p{greek}`, `\p{Lu}`, `\p{^Lu}`, `\p{White_Space}`}, bad: []string{`\p`, `\p{`, `\p\a`, `\p{Lu`}, doubtful: []string{`\p{Emoji}`, `\p{scx=Greek}`, `\p{NoSuchClass}`, `\pB`}},
		"boundaries":   {good: []string{`^a$`, `\Aa\z`, `\ba\B`, `\b{start}a\b{end}`, `\b{start-half}a\b{end-half}`, `\<a\>`, `\b{2}`}, bad: []string{`\b{begin}`, `\b{start`}},
		"alternatives": {good: []string{`a|b`, `|`, `a|`, `(|a)`, `()`}},
		"repetitions": {
			good: []string{`a*b+c?`, `a*?b+?c??`, `a{3}b{1,4}c{2,}`, `a{3}?`, `a**`, `a{2}{3}`, `a{1001}`, `a{ 2 , 3 }`, `^*`, `a{0}`, `(\.[0-9]{1,3}){3}`, `a{0,0}`},
			bad:  []string{`*`, `?a`, `+`, `{`, `{2}`, `a|*`, `(*)`, `(?i)*`, `a{`, `a{}`, `a{1,b}`, `a{2}{x}`, `a{3,2}`, `a{4294967296}`, `/users/{id}`, `a{1`, `a{1,`, `a{-1}`},
		},
		"no lowest count": {bad: []string{`x{,3}`, `x{,}`}},
		"size":            {good: []string{`a{5000}`, `\w{100}`}, bad: []string{`((a{1000}){1000}){1000}`, `a{4294967295}`, strings.Repeat(`(`, 20) + `a` + strings.Repeat(`{4294967295})`, 19) + `{4294967295})`}, doubtful: []string{`\w{1000}`, `(a{1000}){500}`}},
		"groups": {
			good: []string{`(a)`, `(?:a)`, `(?P<n>a|b)`, `(?<n>a)`, `(?<ünder_1.2[3]>a)`, `(?i)a`, `(?i:a)b`, `(?i-s:a)`, `(?-i)a`, `(?msUux)a`, `((?i)a)*`},
			bad:  []string{`(`, `)`, `(a`, `a)`, `(?`, `(?)`, `(?-)`, `(?-:a)`, `(?ii)`, `(?i--s)`, `(?i-i)`, `(?z)`, `(?P<>a)`, `(?P<1>a)`, `(?P<n`, `(?P<n>a)(?P<n>b)`, `(?P=n)`, `(?P>n)`, `(?'n'a)`, `(?=a)`, `(?!a)`, `(?<=a)`, `(?<!a)`, `(?>a)`, `(?#note)`},
		},
		"line ends":  {good: []string{`(?R)a$`, `(?mR)^a$`}},
		"no Unicode": {doubtful: []string{`(?-u)\W`, `(?-u:\xFF)`}},
		"verbose":    {good: []string{"(?x) a # a class ) [ \n b", "(?x: a {2} ) b", "(?x) [ a - z ]"}, bad: []string{"(?x: # not closed )"}},
		"classes": {
			good: []string{`[a]`, `[^a]`, `[]a]`, `[^]a]`, `[-a]`, `[a-]`, `[--a]`, `[a-z]`, `[\]\[{]`, `[\w\-]+[^\]{]`, `[\x{41}-\x{5A}]`, `[\p{L}]{2}`, `[{}]+`, `[[:alpha:]]`, `[[:^alpha:]{]`, `[ü-ÿ]`, `[a-a]`, `[\n-\r]`},
			bad:  []string{`[`, `[]`, `[^]`, `[a`, `[a-`, `[z-a]`, `[a-\d]`, `[\d-z]`, `[\b]`, `[\A]`, `[[]`, `[a[]`, `[\`, `[a]]b]{`},
		},
		"sets of classes": {good: []string{`[a--b]`, `[a-z&&[^aeiou]]`, `[a-z~~b-y]`, `[a[b[c]]]`, `[[:foo:]]`, `[\w--\d]`, `[a-z--[aeiou]]`, `[&&a]`}, bad: []string{`[a&&[b]`}},
		"nesting":         {good: []string{strings.Repeat("(", 60) + strings.Repeat(")", 60)}, bad: []string{strings.Repeat("(", 300) + strings.Repeat(")", 300), strings.Repeat("[", 300)}, doubtful: []string{strings.Repeat("(", 100) + strings.Repeat(")", 100)}},
		"bytes":           {bad: []string{"a\xff"}},
		"usual ones":      {good: []string{`/users/[0-9]{2,}/a{3}b{1,4}`, `/a\{id\}`, `^/api/v\d+/[^/]+$`, `/(?:a|b)(?i)c`, `\/a\/.*\.(png|jpg)$`, `(?P<n>a|b)\.\[\\`, `\\Q`}},
	} {
		t.Run("G5 "+construct, func(t *testing.T) {
			for want, list := range map[string][]string{"good": lists.good, "bad": lists.bad, "doubtful": lists.doubtful} {
				for _, text := range list {
					doubt, err := Expression(text)
					got := "good"
					if err != nil {
						got = "bad"
					} else if doubt != "" {
						got = "doubtful"
					}
					if got != want {
						t.Errorf("%.60q is %s, want %s (%v, %q)", text, got, want, err, doubt)
					}
				}
			}
		})
	}
}

// The time for an expression grows with its length and no faster, whatever
// is repeated in it. Were it otherwise, this test would not end.
func TestExpressionsOfAnyLength(t *testing.T) {
	rulebook.Covers(t, "F7")
	const times = 50_000
	for _, part := range []string{`[[:x]]`, `[[:alpha:]]`, `\p{Greek}`, `\p{X}`, `(?P<n>`, `a{9999}`, `a{2}{2}`, `(a|`, `\x{41}`, `\x{4`, `\b{start}`, `[a-z&&[b]]`, `(?x)#`, `{`, `[`, `(`} {
		for _, text := range []string{strings.Repeat(part, times), "[" + strings.Repeat(part, times), "(?x)" + strings.Repeat(part, times)} {
			if _, err := Expression(text); err != nil && len(err.Error()) > 300 {
				t.Errorf("%s: an error of %d bytes", part, len(err.Error()))
			}
		}
	}
}

// Whatever an expression is, it is judged, at once.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{`^/a/[^/]+$`, `(?x) a{2,3} # b`, `[a[b&&c]-\x{41}]`, `\b{start}\p{Greek}`, `((a{999}){999}){999}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if doubt, err := Expression(text); err != nil && doubt != "" {
			t.Errorf("%q: both %v and %s", text, err, doubt)
		}
	})
}
