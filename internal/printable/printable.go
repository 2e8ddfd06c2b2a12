// Package printable makes foreign text safe to show.
//
// Names of files, keys of objects and messages of other programs may hold
// escape sequences, which a terminal obeys, and line breaks, with which they can
// pass for lines of ours.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is s in one line, with everything that has no shape of its own written as
// Go writes it in a string: \x1b, \n, \u202e. Text that needs no escape is
// returned as it is.
func Text(s string) string { return escape(s, unicode.IsPrint) }

// Lines is Text for what may have several lines and columns: line breaks and tabs
// stay as they are.
func Lines(s string) string {
	return escape(s, func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) })
}

func escape(s string, shown func(rune) bool) string {
	at := firstHidden(s, shown)
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for s = s[at:]; s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			const hex = "0123456789abcdef"
			b.WriteString(`\x` + string(hex[s[0]>>4]) + string(hex[s[0]&15]))
		case shown(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// firstHidden is the offset of the first byte that is to be escaped, or -1.
func firstHidden(s string, shown func(rune) bool) int {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !shown(r) {
			return i
		}
		i += size
	}
	return -1
}

// shortText is how many bytes Short leaves of a text.
const shortText = 120

// Short is Text with the end cut off where it is long: enough to recognise a
// value in a message, however much somebody has written.
func Short(s string) string { return Text(Cut(s, shortText)) }

// Cut is the first bytes of s, at most limit and no part of a character, and a
// sign where there is more.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
