package rulebook

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Test is what holds a rule: a function, a row of its table, or a recorded case.
type Test struct {
	Number string
	// File and Line are where it says so, File from the module's root.
	File string
	Line int
	// Name is the function's, and behind a slash the row's; of a recorded case it is empty.
	Name string
}

// String is the test as a person looks for it.
func (t Test) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s:%d %s", t.File, t.Line, t.Name))
}

// Tests finds the tests below root that say which rules they hold:
//
//   - calls of rulebook.Covers,
//   - literals that begin with numbers, in tables and as names that rulebook.Run is given,
//   - "# covers:" lines of recorded cases, and the numbers with which a script begins.
//
// It reads the files and runs nothing. The tests of this package cite rules to
// test citing, and do not count.
func Tests(root string) ([]Test, error) {
	var found []Test
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && entry.IsDir() && (name == filepath.Join("internal", "rulebook") || strings.HasPrefix(entry.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() {
			return err
		}
		var tests []Test
		switch {
		case strings.HasSuffix(path, ".txtar"):
			tests, err = recorded(path)
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".go") && strings.HasSuffix(filepath.Dir(path), "test"):
			tests, err = written(path)
		}
		for i := range tests {
			tests[i].File = filepath.ToSlash(name)
		}
		found = append(found, tests...)
		return err
	})
	return found, err
}

func recorded(path string) ([]Test, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tests []Test
	line := 0
	for text := range strings.Lines(string(text)) {
		line++
		cited, ok := strings.CutPrefix(text, "# covers:")
		if !ok && line == 1 {
			cited = prefix.FindString(strings.TrimPrefix(text, "# "))
		} else if !ok {
			continue
		}
		for _, number := range Numbers(cited) {
			tests = append(tests, Test{Number: number, Line: line})
		}
	}
	return tests, nil
}

func written(path string) ([]Test, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var tests []Test
	var function string
	var stack []ast.Node
	ast.Inspect(parsed, func(node ast.Node) bool {
		if node == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, node)
		switch node := node.(type) {
		case *ast.FuncDecl:
			function = node.Name.Name
		case *ast.BasicLit:
			if node.Kind != token.STRING {
				break
			}
			text, err := strconv.Unquote(node.Value)
			if err != nil {
				break
			}
			cited, name := Leading(text), function+"/"+text
			if covers(stack) {
				cited, name = Numbers(text), function
			} else if !names(stack) {
				break
			}
			for _, number := range cited {
				tests = append(tests, Test{Number: number, Line: files.Position(node.Pos()).Line, Name: name})
			}
		}
		return true
	})
	return tests, nil
}

// covers tells whether the innermost node is an argument of Covers.
func covers(stack []ast.Node) bool { return slices.ContainsFunc(stack, isCall("Covers")) }

// names tells whether the innermost node may be the name of a row: it stands in
// a composite literal or an index, or is what a function is given that does not report.
func names(stack []ast.Node) bool {
	called := false
	for _, node := range slices.Backward(stack) {
		switch node := node.(type) {
		case *ast.CompositeLit, *ast.IndexExpr:
			return true
		case *ast.CallExpr:
			if reports(node) {
				return false
			}
			called = true
		case *ast.BasicLit, *ast.KeyValueExpr, *ast.BinaryExpr:
		default:
			return called
		}
	}
	return false
}

// reports tells whether a call only writes what it is given.
func reports(call *ast.CallExpr) bool {
	called, ok := call.Fun.(*ast.SelectorExpr)
	return ok && reporting.MatchString(called.Sel.Name)
}

var reporting = regexp.MustCompile(`^(Error|Fatal|Log|Skip|Print|Sprint|Fprint|MustCompile)f?$`)

// isCall returns a test for calls of a function of this package.
func isCall(name string) func(ast.Node) bool {
	return func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return false
		}
		called, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || called.Sel.Name != name {
			return false
		}
		from, ok := called.X.(*ast.Ident)
		return ok && from.Name == "rulebook"
	}
}
