package rulebook

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func repository(t *testing.T) (root string, c *Catalogue) {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Read(root); err != nil {
		t.Fatal(err)
	}
	return root, c
}

// Each rule has a test, or is named with a reason in docs/rules/README.md. What
// tests cite is a rule.
func TestEveryRuleHasATest(t *testing.T) {
	root, c := repository(t)
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, test := range tests {
		held[test.Number] = true
		if !c.Defined(test.Number) {
			t.Errorf("%s holds %s, which is no rule of docs/rules", test, test.Number)
		}
	}
	excused := withoutTest(t, root)
	for _, r := range c.Rules {
		if !held[r.Number] && !excused[r.Number] {
			t.Errorf("%s:%d: no test holds %s; write one that says rulebook.Covers(t, %q), or say why not in docs/rules/README.md", r.File, r.Line, r.Number, r.Number)
		}
	}
	for number := range excused {
		if strings.ContainsAny(number[:1], "DPVAIL") && !c.Defined(number) {
			t.Errorf("docs/rules/README.md excuses %s, which is no rule", number)
		}
	}
}

// withoutTest are the numbers that docs/rules/README.md excuses.
func withoutTest(t *testing.T, root string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "rules", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Rules without a test\n")
	if !found {
		t.Fatal("docs/rules/README.md has no section of rules without a test")
	}
	excused := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, number := range spell(cells[1]) {
				excused[number] = true
			}
		}
	}
	return excused
}

var numberOrRange = regexp.MustCompile(`\b(` + anyNumber + `)(?:[-–](` + anyNumber + `))?\b`)

// spell returns the numbers of a text; of a range, as in D45-D48, all of them.
func spell(text string) []string {
	var all []string
	for _, m := range numberOrRange.FindAllStringSubmatch(text, -1) {
		first, last := m[1], m[2]
		if last == "" || first[0] != last[0] {
			all = append(all, strings.Fields(first+" "+last)...)
			continue
		}
		from, _ := strconv.Atoi(first[1:])
		to, _ := strconv.Atoi(last[1:])
		for n := from; n <= to; n++ {
			all = append(all, fmt.Sprintf("%c%0*d", first[0], len(first)-1, n))
		}
	}
	return all
}

// Comments and documents cite numbers and sections that are there.
func TestCitationsExist(t *testing.T) {
	root, c := repository(t)
	for name, text := range cited(t, root) {
		for line, text := range text {
			for _, m := range inComments.FindAllString(text, -1) {
				for _, number := range spell(m) {
					if !c.Defined(number) {
						t.Errorf("%s:%d: there is no rule %s", name, line, number)
					}
				}
			}
			for _, m := range section.FindAllStringSubmatch(text, -1) {
				file, number := strings.TrimSuffix(strings.Fields(m[1])[0], ".md"), m[2]
				if file == "D" {
					file = "destination"
				}
				if !c.Section(file, number) {
					t.Errorf("%s:%d: docs/rules/%s.md has no section %s", name, line, file, number)
				}
			}
		}
	}
}

var (
	// Names such as H2 are also something else; rules of those letters are cited by tests.
	inComments = regexp.MustCompile(`\b[ABDILPV]\d{2,3}b?(?:[-–][ABDILPV]\d{2,3}b?)?\b`)
	section    = regexp.MustCompile(`\b(D|policy-(?:inbound|outbound|status|admission)|(?:identity|proxy|cluster|crds|cli|service-profiles)(?: sections?|\.md)) (?:sections? )?(\d+(?:\.\d+)*)\b`)
)

// cited are the texts that cite rules, by file and line.
func cited(t *testing.T, root string) map[string]map[int]string {
	t.Helper()
	all := map[string]map[int]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && strings.HasPrefix(entry.Name(), ".") && path != root {
				return fs.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		texts := map[int]string{}
		switch {
		case strings.HasSuffix(path, ".pb.go"):
		case strings.HasSuffix(path, ".go"):
			err = comments(path, texts)
		case name == filepath.Join("docs", "differences.md"), name == filepath.Join("docs", "architecture.md"):
			err = lines(path, texts)
		}
		all[filepath.ToSlash(name)] = texts
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func comments(path string, texts map[int]string) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range parsed.Comments {
		// A citation may be broken over lines.
		texts[files.Position(group.Pos()).Line] = strings.ReplaceAll(group.Text(), "\n", " ")
	}
	return nil
}

func lines(path string, texts map[int]string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(text), "\n") {
		texts[i+1] = line
	}
	return nil
}

func TestLeading(t *testing.T) {
	for _, test := range []struct {
		name string
		want []string
	}{
		{"", nil},
		{"no number", nil},
		{"a D37 inside", nil},
		{"D37", []string{"D37"}},
		{"D37 words", []string{"D37"}},
		{"D37: words", []string{"D37"}},
		{"D38, B12: IPv6 is off", []string{"D38", "B12"}},
		{"P164 P164b B62/Service", []string{"P164", "P164b", "B62"}},
		{"D37x", nil},
		{"E12", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Leading(test.name); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A test that cites what is not there fails; so does one that cites nothing.
func TestCoversFails(t *testing.T) {
	for _, rules := range []string{"D999", "D37, D999", "", "nothing"} {
		var r recorder
		func() {
			defer func() { _ = recover() }()
			Covers(&r, rules)
		}()
		if r.failed == "" {
			t.Errorf("%q passes", rules)
		}
	}
	Covers(t, "D37", "B01, P164b")
}

// recorder is a test that fails in place of this one.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.failed = fmt.Sprint(args...); panic(r) }

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// Definitions stand in the file of their letter, once.
func TestRead(t *testing.T) {
	for _, test := range []struct{ name, file, text, problem string }{
		{"a row", "destination.md", "## 1. A\n| <a id=\"D01\"></a>D01 | in | out |\n", ""},
		{"twice", "destination.md", "| <a id=\"D01\"></a>D01 | in |\n| <a id=\"D01\"></a>D01 | in |\n", "destination.md:2: D01 is also in line 1"},
		{"another file's", "identity.md", "| <a id=\"D01\"></a>D01 | in |\n", "identity.md:1: D01 belongs into docs/rules/destination.md"},
		{"an anchor of another", "destination.md", "| <a id=\"D01\"></a>D02 | in |\n", "destination.md:1: the anchor D01 stands in front of D02"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "docs", "rules")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Read(root)
			switch {
			case test.problem == "" && err != nil:
				t.Fatal(err)
			case test.problem != "":
				if err == nil || !strings.HasSuffix(err.Error(), test.problem) {
					t.Errorf("got %v, want %s", err, test.problem)
				}
			case !c.Defined("D01") || !c.Section("destination", "1") || c.Section("destination", "2") || c.Rules[0].Text != "in | out":
				t.Errorf("got %+v", c.Rules)
			}
		})
	}
}
