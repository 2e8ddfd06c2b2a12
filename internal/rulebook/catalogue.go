package rulebook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Rule is one numbered rule of docs/rules.
type Rule struct {
	Number string
	// File and Line are where it stands, File from the module's root.
	File string
	Line int
	Text string
}

// Catalogue is what docs/rules has.
type Catalogue struct {
	// Rules are in order of files and lines.
	Rules []Rule
	// sections are the numbers of headings, "1.12", by file.
	sections map[string]map[string]bool
	lines    map[string]int
}

var (
	definition = regexp.MustCompile(`^(?:\| |#+ )<a id="(` + anyNumber + `)"></a>(` + anyNumber + `) (.*)$`)
	heading    = regexp.MustCompile(`^#+ (?:Appendix )?([0-9A-Z]+(?:\.\d+)*)\.? `)
)

// Read reads docs/rules below root. A number that is defined twice, or in
// another file than its letter's, is an error.
func Read(root string) (*Catalogue, error) {
	c := &Catalogue{sections: map[string]map[string]bool{}, lines: map[string]int{}}
	names, err := filepath.Glob(filepath.Join(root, "docs", "rules", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := c.read(filepath.Base(name), strings.Split(string(text), "\n")); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Catalogue) read(name string, lines []string) error {
	c.sections[name] = map[string]bool{}
	for i, line := range lines {
		if m := heading.FindStringSubmatch(line); m != nil {
			c.sections[name][m[1]] = true
		}
		m := definition.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		place := fmt.Sprintf("docs/rules/%s:%d", name, i+1)
		switch {
		case file(m[1]) != name:
			return fmt.Errorf("%s: %s belongs into docs/rules/%s", place, m[1], file(m[1]))
		case m[1] != m[2]:
			return fmt.Errorf("%s: the anchor %s stands in front of %s", place, m[1], m[2])
		case c.lines[m[1]] != 0:
			return fmt.Errorf("%s: %s is also in line %d", place, m[1], c.lines[m[1]])
		}
		c.lines[m[1]] = i + 1
		c.Rules = append(c.Rules, Rule{Number: m[1], File: "docs/rules/" + name, Line: i + 1, Text: body(m[3], lines[i+1:], line[0] == '#')})
	}
	return nil
}

// body is the text of a rule: the rest of its row, or all up to the next heading.
func body(text string, after []string, section bool) string {
	if !section {
		return strings.Trim(text, "| ")
	}
	lines := []string{strings.TrimSpace(text)}
	for _, line := range after {
		if strings.HasPrefix(line, "#") {
			break
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// Defined tells whether there is such a rule.
func (c *Catalogue) Defined(number string) bool { return c.lines[number] != 0 }

// Section tells whether a file of docs/rules, without its ending, has a section.
func (c *Catalogue) Section(name, number string) bool { return c.sections[name+".md"][number] }
