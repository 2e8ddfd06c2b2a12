package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

func isKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), name)
}

// references is what a kustomization file says about others, read without
// building it, so that a broken one does not turn its bases loose.
type references struct {
	component bool
	dirs      []string // absolute, real
	remote    []string
}

// readReferences reads the kustomization file path. An empty one is an error, as
// it is for kustomize: it is about to be written.
func readReferences(path string, data []byte) (references, error) {
	var k types.Kustomization
	if err := yaml.Unmarshal(data, &k); err != nil {
		return references{}, err
	}
	if reflect.ValueOf(k).IsZero() {
		return references{}, fmt.Errorf("%s is empty", path)
	}
	refs := references{component: k.Kind == types.ComponentKind}
	//lint:ignore SA1019 bases are deprecated, and in use
	//lint:ignore SA1019 old kustomizations still have bases
	for _, ref := range slices.Concat(k.Resources, k.Bases, k.Components, k.Crds, k.Configurations, k.Transformers, k.Generators, k.Validators) {
		if strings.Contains(ref, "\n") {
			continue // an inline object
		}
		real, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(path), ref))
		if err != nil {
			if isRemote(ref) {
				refs.remote = append(refs.remote, ref)
			}
			continue
		}
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			refs.dirs = append(refs.dirs, real)
		}
	}
	return refs, nil
}

func isRemote(ref string) bool {
	return strings.Contains(ref, "://") || strings.Contains(ref, "?ref=") || strings.Contains(ref, ".git") ||
		strings.HasPrefix(ref, "git@") || strings.HasPrefix(ref, "github.com/")
}

// build runs kustomize on the directory of the kustomization file path, and
// returns its objects and all paths it looked at.
func build(path string) (objects []Object, inputs []string, err error) {
	disk := &recorder{FileSystem: filesys.MakeFsOnDisk(), paths: map[string]bool{}}
	defer func() {
		// Plugins and openapi code of kustomize panic on some inputs.
		if r := recover(); r != nil {
			err = fmt.Errorf("kustomize panicked: %v", r)
		}
		inputs = disk.sorted()
	}()
	dir := filepath.Dir(path)
	// Whatever happens, the file itself and what it refers to are inputs.
	if remote := findRemote(path, disk.paths); remote != "" {
		return nil, nil, fmt.Errorf("%s is not on this machine: remote resources are not fetched, put a copy next to the kustomization", remote)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, dir)
	if disk.refused != nil {
		return nil, nil, disk.refused
	}
	if err != nil {
		return nil, nil, err
	}
	for _, r := range resources.Resources() {
		content, err := r.Map()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		raw, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.CurId(), err)
		}
		// Through JSON, as kustomize's numbers are ints, which API machinery does not know.
		doc := parseJSON(raw)
		if len(doc.faults) > 0 {
			return nil, nil, fault{doc.faults[0]}
		}
		for _, o := range doc.objects {
			o.Line = 0
			objects = append(objects, o)
		}
	}
	return objects, nil, nil
}

// findRemote looks for a remote reference in the kustomization file path and
// in those it uses. It adds them to seen.
func findRemote(path string, seen map[string]bool) string {
	if seen[path] {
		return ""
	}
	seen[path] = true
	data, _, err := readLimited(path)
	if err != nil {
		return "" // kustomize says it better
	}
	refs, err := readReferences(path, data)
	if err != nil {
		return ""
	}
	if len(refs.remote) > 0 {
		return refs.remote[0]
	}
	for _, dir := range refs.dirs {
		for _, name := range konfig.RecognizedKustomizationFileNames() {
			if ref := findRemote(filepath.Join(dir, name), seen); ref != "" {
				return ref
			}
		}
	}
	return ""
}

// buildFault gives an error of kustomize the line of the YAML in it, if one.
func buildFault(shown string, err error) problems.Problem {
	if read := (fault{}); errors.As(err, &read) {
		read.File = shown
		return read.Problem
	}
	message := OneLine(err.Error())
	if wd, err := os.Getwd(); err == nil {
		message = strings.ReplaceAll(message, wd+string(filepath.Separator), "")
	}
	return problems.Problem{File: shown, Message: "kustomize: " + spareFault(message)}
}

var kustomizeNoise = regexp.MustCompile(`accumulating resources: |accumulation err='[^']*': `)

// spareFault drops the path of calls that kustomize puts before its errors.
func spareFault(message string) string { return kustomizeNoise.ReplaceAllString(message, "") }

// recorder is a file system that remembers which paths were asked for.
type recorder struct {
	filesys.FileSystem
	paths map[string]bool
	// refused is why a file was not handed over; kustomize may call it missing.
	refused error
}

func (r *recorder) note(path string) {
	if abs, err := filepath.Abs(path); err == nil {
		r.paths[abs] = true
	}
}

func (r *recorder) sorted() []string {
	paths := make([]string, 0, len(r.paths))
	for path := range r.paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (r *recorder) Open(path string) (filesys.File, error) {
	r.note(path)
	return r.FileSystem.Open(path)
}

func (r *recorder) IsDir(path string) bool {
	r.note(path)
	return r.FileSystem.IsDir(path)
}

func (r *recorder) ReadDir(path string) ([]string, error) {
	r.note(path)
	return r.FileSystem.ReadDir(path)
}

func (r *recorder) CleanedAbs(path string) (filesys.ConfirmedDir, string, error) {
	r.note(path)
	return r.FileSystem.CleanedAbs(path)
}

func (r *recorder) Exists(path string) bool {
	r.note(path)
	return r.FileSystem.Exists(path)
}

func (r *recorder) Glob(pattern string) ([]string, error) {
	r.note(filepath.Dir(pattern))
	matches, err := r.FileSystem.Glob(pattern)
	for _, match := range matches {
		r.note(match)
	}
	return matches, err
}

// ReadFile has the size limit of plain manifests.
func (r *recorder) ReadFile(path string) ([]byte, error) {
	r.note(path)
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		switch {
		case !info.Mode().IsRegular():
			// Reading a pipe waits for whoever writes it.
			r.refused = fmt.Errorf("%s is no regular file, which is not read", path)
			return nil, r.refused
		case info.Size() > maxFile:
			return nil, errors.New(tooBig(path, info.Size()))
		}
	}
	data, err := r.FileSystem.ReadFile(path)
	if err == nil {
		if remote := remoteIn(path, data); remote != "" {
			r.refused = fmt.Errorf("%s is not on this machine: remote resources are not fetched, put a copy next to the kustomization", remote)
			return nil, r.refused
		}
	}
	if err == nil && isManifest(filepath.Base(path)) && bytes.IndexByte(data, 0) >= 0 {
		binary, _ := notText(data)
		return nil, fault{binary}
	}
	return data, err
}

func (r *recorder) Walk(path string, walk filepath.WalkFunc) error {
	return r.FileSystem.Walk(path, func(path string, info fs.FileInfo, err error) error {
		r.note(path)
		return walk(path, info, err)
	})
}
