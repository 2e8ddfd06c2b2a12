// Command rules looks up the numbered rules of docs/rules and the tests that hold them.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

const usage = `usage: go run ./test/rules [NUMBER ...]

With numbers, such as D37, it prints each rule, where it stands, and its tests.
Without, it prints how many rules there are, and those that no test holds.`

func main() {
	if slices.ContainsFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		fmt.Println(usage)
		return
	}
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, wanted []string) error {
	root, err := rulebook.Root()
	if err != nil {
		return err
	}
	catalogue, err := rulebook.Read(root)
	if err != nil {
		return err
	}
	tests, err := rulebook.Tests(root)
	if err != nil {
		return err
	}
	held := map[string][]rulebook.Test{}
	for _, test := range tests {
		held[test.Number] = append(held[test.Number], test)
	}
	if len(wanted) == 0 {
		summary(out, catalogue, held)
		return nil
	}
	for _, number := range wanted {
		if !catalogue.Defined(number) {
			return fmt.Errorf("there is no rule %s in docs/rules", number)
		}
	}
	for _, r := range catalogue.Rules {
		if slices.Contains(wanted, r.Number) {
			fmt.Fprintf(out, "%s (%s:%d)\n%s\n", r.Number, r.File, r.Line, r.Text)
			for _, test := range held[r.Number] {
				fmt.Fprintf(out, "  %s\n", test)
			}
		}
	}
	return nil
}

func summary(out io.Writer, catalogue *rulebook.Catalogue, held map[string][]rulebook.Test) {
	var without []rulebook.Rule
	for _, r := range catalogue.Rules {
		if len(held[r.Number]) == 0 {
			without = append(without, r)
		}
	}
	fmt.Fprintf(out, "%d rules, %d of them without a test:\n", len(catalogue.Rules), len(without))
	for _, r := range without {
		title, _, _ := strings.Cut(r.Text, "\n")
		fmt.Fprintf(out, "  %s (%s:%d) %s\n", r.Number, r.File, r.Line, title)
	}
}
