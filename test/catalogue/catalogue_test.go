package catalogue

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory.
const root = "../.."

// sections are the parts of the catalogue that are to be complete.
var sections = []struct {
	name, format string
	first, last  int
	// also are numbers outside the range, without those that the catalogue leaves out.
	also, missing []string
	// inapplicable numbers are rows of docs/differences.md instead of tests.
	inapplicable []string
}{
	{name: "policy", format: "P%02d", first: 1, last: 313, also: []string{"P164b"}, inapplicable: []string{"P301", "P302"}},
	{name: "destination", format: "D%02d", first: 1, last: 148},
	{name: "bugs of destination", format: "B%02d", first: 1, last: 37, missing: []string{"B04", "B15", "B22", "B26", "B31", "B36"}},
	{name: "bugs of policy", format: "B%02d", first: 62, last: 70, also: []string{"B41", "B45"}, missing: []string{"B63", "B65", "B67"}},
}

// Each number of the catalogue is the name of a row or of a golden file; those
// that do not apply are rows of the differences.
func TestNumbersAreNamed(t *testing.T) {
	differences, err := os.ReadFile(filepath.Join(root, "docs", "differences.md"))
	if err != nil {
		t.Fatal(err)
	}
	deviations := numbersIn(string(differences))
	named := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == filepath.Join(root, "test", "catalogue", "catalogue_test.go") {
			return err
		}
		text := ""
		switch {
		case strings.HasSuffix(path, "_test.go"):
			text, err = literals(path)
		case strings.HasSuffix(path, ".txtar"):
			text, err = covers(path)
		}
		for number := range numbersIn(text) {
			named[number] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		t.Run(section.name, func(t *testing.T) {
			numbers := section.also
			for i := section.first; i <= section.last; i++ {
				numbers = append(numbers, fmt.Sprintf(section.format, i))
			}
			for _, number := range numbers {
				switch {
				case slices.Contains(section.missing, number):
				case slices.Contains(section.inapplicable, number):
					if !deviations[number] {
						t.Errorf("%s is no row of docs/differences.md", number)
					}
				case !named[number]:
					t.Errorf("%s is the name of no row and covered by no golden file", number)
				}
			}
		})
	}
}

var number = regexp.MustCompile(`\b[BDP]\d{2,3}b?\b`)

func numbersIn(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range number.FindAllString(text, -1) {
		found[match] = true
	}
	return found
}

// literals are the strings of a Go file: names, but not comments.
func literals(path string) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(path, files.Base(), len(source)), source, nil, 0)
	var text strings.Builder
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return text.String(), nil
		case token.STRING:
			text.WriteString(literal + "\n")
		}
	}
}

// covers are the numbers that a golden file says it covers.
func covers(path string) (string, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(source)) {
		if numbers, ok := strings.CutPrefix(line, "# covers:"); ok {
			return numbers, nil
		}
	}
	return "", nil
}
