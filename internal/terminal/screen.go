package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen is a terminal whose last lines change in place while text that stays
// goes above them. All that is printed on the terminal goes through it.
//
//  1. Write takes the live lines away, writes the finished lines of the text,
//     and puts the live lines back.
//  2. Show replaces the live lines.
//  3. Keep leaves them where they are; whatever follows goes below.
type Screen struct {
	mu     sync.Mutex
	out    io.Writer
	width  func() int
	colour bool

	live []string
	// rest is text whose line has not ended yet.
	rest []byte
}

// NewScreen makes a screen of an output that is a terminal, and nothing of
// others. It writes by way of out.
func NewScreen(terminal, out io.Writer) *Screen {
	file, ok := terminal.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Screen{out: out, colour: os.Getenv("NO_COLOR") == "", width: func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 80
		}
		return width
	}}
}

func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	end := bytes.LastIndexByte(s.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var text strings.Builder
	for line := range strings.Lines(string(s.rest[:end])) {
		text.WriteString(s.painted(line))
	}
	s.rest = append([]byte(nil), s.rest[end:]...)
	return len(p), s.draw(text.String(), s.live)
}

// Show replaces the live lines.
func (s *Screen) Show(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draw("", lines)
}

// Keep makes the live lines text that stays.
func (s *Screen) Keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = nil
}

// draw writes text above new live lines, each of which takes one row.
func (s *Screen) draw(text string, live []string) error {
	var b strings.Builder
	if n := len(s.live); n > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", n)
	}
	b.WriteString(text)
	width := s.width()
	for _, line := range live {
		b.WriteString(s.painted(cut(line, width-1) + "\n"))
	}
	s.live = live
	_, err := io.WriteString(s.out, b.String())
	return err
}

// cut shortens a line to so many characters.
func cut(line string, width int) string {
	if width < 1 || utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}

// marks are the words at the beginning of lines that have a colour.
var marks = regexp.MustCompile(`^(?:manifests:)?(?:\s*(√|apply)|\s*(prune|waiting|warning|drift|‼)|\s*(failed|error|×)|\S+ (?:level=(WARN)|level=(ERROR)))(?:[\s:]|$)`)

// painted colours the word that says what kind of line it is.
func (s *Screen) painted(line string) string {
	if !s.colour {
		return line
	}
	at := marks.FindStringSubmatchIndex(line)
	if at == nil {
		return line
	}
	const green, yellow, red = "32", "33", "31"
	for group, colour := range []string{green, yellow, red, yellow, red} {
		if begin, end := at[2*group+2], at[2*group+3]; begin >= 0 {
			return line[:begin] + "\x1b[" + colour + ";1m" + line[begin:end] + "\x1b[0m" + line[end:]
		}
	}
	return line
}
