package policy_test

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
const root = ".."

// scenarios is how many numbers the catalogue of policy has.
const scenarios = 313

// Each scenario of the catalogue, P01 to P313, is the name of a row or of a
// golden file; those that do not apply are rows of the differences.
func TestScenariosAreNamed(t *testing.T) {
	differences, err := os.ReadFile(filepath.Join(root, "docs", "differences.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := namedIn(string(differences))
	inapplicable := []string{"P301", "P302"}
	for _, number := range inapplicable {
		if !named[number] {
			t.Errorf("%s is no row of docs/differences.md", number)
		}
	}
	named = map[string]bool{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == filepath.Join(root, "policy", "catalogue_test.go") {
			return err
		}
		text := ""
		switch {
		case strings.HasSuffix(path, "_test.go"):
			text, err = literals(path)
		case strings.HasSuffix(path, ".txtar"):
			text, err = covers(path)
		}
		for number := range namedIn(text) {
			named[number] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	numbers := []string{"P164b"}
	for i := range scenarios {
		numbers = append(numbers, fmt.Sprintf("P%02d", i+1))
	}
	for _, number := range numbers {
		if !named[number] && !slices.Contains(inapplicable, number) {
			t.Errorf("%s is the name of no row and covered by no golden file", number)
		}
	}
}

var scenarioNumber = regexp.MustCompile(`\bP\d{2,3}b?\b`)

func namedIn(text string) map[string]bool {
	named := map[string]bool{}
	for _, number := range scenarioNumber.FindAllString(text, -1) {
		named[number] = true
	}
	return named
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
