package source

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	gitignore "github.com/monochromegane/go-gitignore"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// IgnoreFile is the name of files that say, in the syntax of .gitignore, what below
// them is no manifest.
const IgnoreFile = ".linkerdliteignore"

// ignore notes what the directory path leaves out.
func (t *tree) ignore(path string, data []byte) {
	t.ignores[path] = append(t.ignores[path], gitignore.NewGitIgnoreFromReader(path, bytes.NewReader(data)))
}

// ignored reports whether a directory above path leaves it out.
func (t *tree) ignored(path string, isDir bool) bool {
	if len(t.ignores) == 0 {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		for _, matcher := range t.ignores[dir] {
			if matcher.Match(path, isDir) {
				return true
			}
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// isChart reports whether a directory with these entries is a Helm chart.
func isChart(entries []fs.DirEntry) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	return has("Chart.yaml") && (has("templates") || has("values.yaml") || has("charts"))
}

// alienShown is how many files without an object are named.
const alienShown = 3

// aliens sums up the files that hold something else than Kubernetes objects.
func aliens(sources []*Source) []problems.Problem {
	var names []string
	for _, s := range sources {
		if s.Alien {
			names = append(names, s.Shown)
		}
	}
	if len(names) == 0 {
		return nil
	}
	text := strings.Join(names[:min(len(names), alienShown)], ", ")
	if more := len(names) - alienShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []problems.Problem{{Message: "no Kubernetes objects are in " + text + ": left out; " + IgnoreFile + " or --exclude can say so"}}
}

// toolGroups are those of files that configure a tool, and look like objects but for their
// metadata.
var toolGroups = regexp.MustCompile(`(?:^|\.)(?:kind\.x-k8s\.io|k3d\.io|skaffold|kubeadm\.k8s\.io|audit\.k8s\.io|config\.k8s\.io)$`)

// isToolConfig reports whether no API server has such an object: a kubeconfig, or what kind,
// k3d, skaffold, kubeadm and the parts of a cluster are given.
func isToolConfig(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return apiVersion == "v1" && kind == "Config" || toolGroups.MatchString(group)
}

// isAlien reports whether faults say that a file is something else altogether.
func isAlien(faults []problems.Problem) bool {
	return len(faults) > 0 && !slices.ContainsFunc(faults, func(f problems.Problem) bool { return !strings.HasPrefix(f.Message, notObject) })
}
