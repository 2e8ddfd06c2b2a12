// Package recorded reads recorded conversations with a control plane and
// compares what a client has received with them.
//
// A case is a txtar archive. Its comment holds directives, lines of the form
// "# key: value"; its files are steps named NN-VERB[-NAME].EXT, in order:
//
//	apply   objects, in YAML
//	delete  references to objects, in YAML
//	open    a call under NAME: {"service", "method", "request"}
//	want    what NAME has received since its last want: {"messages", "status"},
//	        or with "compare: state" what it holds in the end: {"state", "status"}
//	close   cancels the call NAME
//	sleep   a time, for what cannot be waited for otherwise
package recorded

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Case is one conversation.
type Case struct {
	// Name is that of the file, without its extension.
	Name  string
	Steps []Step

	directives map[string]string
}

// Step is one step of a case.
type Step struct {
	// File is the name of the step as the archive has it.
	File string
	// Verb is what to do; Name says on which call.
	Verb, Name string
	Content    string
}

// Load reads the cases that match a pattern of filepath.Glob, of which there must be one at least.
func Load(pattern string) ([]Case, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases match %s", pattern)
	}
	var cases []Case
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			return nil, err
		}
		c := Case{Name: strings.TrimSuffix(filepath.Base(file), ".txtar"), directives: map[string]string{}}
		for line := range strings.Lines(string(archive.Comment)) {
			if text, ok := strings.CutPrefix(line, "# "); ok {
				if key, value, ok := strings.Cut(text, ":"); ok && !strings.Contains(key, " ") {
					c.directives[key] = strings.TrimSpace(value)
				}
			}
		}
		for _, f := range archive.Files {
			step := Step{File: f.Name, Content: string(f.Data)}
			_, rest, _ := strings.Cut(strings.TrimSuffix(f.Name, filepath.Ext(f.Name)), "-")
			step.Verb, step.Name, _ = strings.Cut(rest, "-")
			c.Steps = append(c.Steps, step)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Compare is how messages are compared: "messages", "exact" or "state".
func (c Case) Compare() string { return c.directive("compare", "messages") }

// Covers are the numbers of the rules that the case holds. It may name sections instead.
func (c Case) Covers() []string { return rulebook.Numbers(c.directive("covers", "")) }

// Server is the set of server flags that the case is for.
func (c Case) Server() string { return c.directive("server", "default") }

func (c Case) directive(key, otherwise string) string {
	if value, ok := c.directives[key]; ok {
		return value
	}
	return otherwise
}

// Documents splits a step's content into its YAML documents.
func (s Step) Documents() []string { return strings.Split(s.Content, "\n---\n") }
