package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/problems"
)

// maxFile is the size in bytes above which a file is refused: the biggest
// bundles of CRDs in the wild have some 5 MB.
const maxFile = 32 << 20

// notObject begins the message of a fault that says that a file is no manifest at all.
const notObject = "not a Kubernetes object: "

// Object is one object of a manifest. It is never changed after it was parsed.
type Object struct {
	Unstructured *unstructured.Unstructured
	// Line is where the object begins, from 1; 0 if unknown.
	Line int
	// Hash is of the whole object, its status included.
	Hash string
}

// Key has the namespace as it is written; the planner knows the kind's scope.
func (o Object) Key() Key {
	gvk := o.Unstructured.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.Unstructured.GetNamespace(), Name: o.Unstructured.GetName()}
}

// document is the result of parsing one YAML document, with lines that
// count from its own first line, which is 1.
type document struct {
	objects []Object
	faults  []problems.Problem
}

// Documents caches results by the hash of the document's text, so that
// saving a file of a thousand Documents parses the one that changed.
type Documents map[[sha256.Size]byte]document

// Parse reads the manifest data of the file path. Either objects or faults is
// empty: a file counts as a whole. The returned cache serves the next call for
// the same file.
func Parse(path string, data []byte, cache Documents) (objects []Object, faults []problems.Problem, next Documents) {
	if fault, bad := notText(data); bad {
		fault.File = path
		return nil, []problems.Problem{fault}, cache
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
	next = Documents{}
	read, parts := parseYAML, splitYAML(data)
	if strings.EqualFold(filepath.Ext(path), ".json") {
		read, parts = parseJSON, []chunk{{line: 1, text: data}}
	}
	for _, c := range parts {
		sum := sha256.Sum256(c.text)
		doc, ok := next[sum]
		if !ok {
			if doc, ok = cache[sum]; !ok {
				doc = read(c.text)
			}
			next[sum] = doc
		}
		for _, o := range doc.objects {
			if o.Line > 0 {
				o.Line += c.line - 1
			}
			objects = append(objects, o)
		}
		for _, f := range doc.faults {
			f.File = path
			if f.Line > 0 {
				f.Line += c.line - 1
			}
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		return nil, faults, next
	}
	return objects, nil, next
}

// notText finds what can be no manifest in any format.
func notText(data []byte) (problems.Problem, bool) {
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return problems.Problem{Line: 1, Message: "the file is UTF-16: save it as UTF-8"}, true
	}
	at := bytes.IndexByte(data, 0)
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				if at < 0 || i < at {
					at = i
				}
				break
			}
			i += size
		}
	}
	if at < 0 {
		return problems.Problem{}, false
	}
	return problems.Problem{
		Line:    1 + bytes.Count(data[:at], []byte("\n")),
		Message: fmt.Sprintf("this is binary data, not UTF-8 text (byte %#02x at offset %d)", data[at], at),
	}, true
}

func parseYAML(text []byte) document {
	if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '{' {
		// JSON may be indented with tabs, which YAML does not allow.
		if doc := parseJSON(text); len(doc.faults) == 0 {
			return doc
		}
	}
	first := firstLine(text)
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil && strings.Contains(err.Error(), "already set in map") && !hasTwins(text) {
		raw, err = yaml.YAMLToJSON(text) // the key was merged, and is overridden here, as it may be
	}
	if err != nil {
		return document{faults: yamlFaults(err, first, 1+bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n")))}
	}
	var value any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return document{faults: []problems.Problem{{Line: first, Message: OneLine(err.Error())}}}
	}
	if value == nil {
		return document{}
	}
	return readValue(value, text, first)
}

// hasTwins reports whether a mapping has a key twice that is written twice.
func hasTwins(text []byte) bool {
	var root yamlv3.Node
	if yamlv3.Unmarshal(text, &root) != nil {
		return true
	}
	return nodeHasTwins(&root)
}

func nodeHasTwins(node *yamlv3.Node) bool {
	if node.Kind == yamlv3.MappingNode {
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind == yamlv3.ScalarNode && seen[key.Value] {
				return true
			}
			seen[key.Value] = true
		}
	}
	return slices.ContainsFunc(node.Content, nodeHasTwins)
}

// parseJSON reads one object or several in a row.
func parseJSON(text []byte) document {
	var all document
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		from := decoder.InputOffset()
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all
		}
		start := int(from)
		for start < len(text) && strings.IndexByte(" \t\r\n", text[start]) >= 0 {
			start++
		}
		line := 1 + bytes.Count(text[:start], []byte("\n"))
		if err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				line = 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
			} else if errors.Is(err, io.ErrUnexpectedEOF) {
				line = 1 + bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n"))
				err = errors.New("the JSON ends too early")
			}
			all.faults = append(all.faults, problems.Problem{Line: line, Message: OneLine(err.Error())})
			return all
		}
		var value any
		if err := utiljson.Unmarshal(raw, &value); err != nil {
			all.faults = append(all.faults, problems.Problem{Line: line, Message: OneLine(err.Error())})
			continue
		}
		doc := readValue(value, raw, 1)
		for _, o := range doc.objects {
			o.Line += line - 1
			all.objects = append(all.objects, o)
		}
		for _, f := range doc.faults {
			f.Line += line - 1
			all.faults = append(all.faults, f)
		}
	}
}

// readValue turns a decoded document into objects; a List becomes its items.
func readValue(value any, text []byte, line int) document {
	content, ok := value.(map[string]any)
	if !ok {
		return document{faults: []problems.Problem{{Line: line, Message: fmt.Sprintf(notObject+"expected a mapping, found %s", typeName(value))}}}
	}
	kind, _ := content["kind"].(string)
	items, isList := content["items"].([]any)
	if has, ok := content["items"]; ok && has == nil && strings.HasSuffix(kind, "List") {
		return document{} // what a template with nothing to do leaves
	}
	if !isList || !strings.HasSuffix(kind, "List") {
		object, fault := newObject(content, line)
		if fault != nil {
			return document{faults: []problems.Problem{*fault}}
		}
		return document{objects: []Object{object}}
	}
	var doc document
	lines := itemLines(text)
	for i, item := range items {
		at := line
		if i < len(lines) {
			at = lines[i]
		}
		member, ok := item.(map[string]any)
		if !ok {
			doc.faults = append(doc.faults, problems.Problem{Line: at, Message: fmt.Sprintf("items[%d] of the %s is not an object: expected a mapping, found %s", i, kind, typeName(item))})
			continue
		}
		if itemKind := strings.TrimSuffix(kind, "List"); itemKind != "" {
			// The items of a typed list, such as ServiceList, need not repeat what they are.
			if _, has := member["kind"]; !has {
				member["kind"], member["apiVersion"] = itemKind, content["apiVersion"]
			}
		}
		nested := readValue(member, nil, at)
		doc.objects = append(doc.objects, nested.objects...)
		doc.faults = append(doc.faults, nested.faults...)
	}
	return doc
}

// serverFields are those of an exported object that only the server sets. A
// resource version would make every apply a conflict.
var serverFields = []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"}

func newObject(content map[string]any, line int) (Object, *problems.Problem) {
	u := &unstructured.Unstructured{Object: content}
	apiVersion, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	metadata, _ := content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	refuse := func(message string) (Object, *problems.Problem) {
		return Object{}, &problems.Problem{Line: line, Object: problems.Object{Kind: kind, Name: name}, Message: message}
	}
	switch {
	case apiVersion == "" && kind == "":
		return refuse(notObject + "it has neither apiVersion nor kind")
	case apiVersion == "":
		return refuse("apiVersion is missing")
	case strings.Count(apiVersion, "/") > 1:
		return refuse(fmt.Sprintf("apiVersion %q is not group/version", apiVersion))
	case kind == "":
		return refuse("kind is missing")
	case metadata == nil && content["metadata"] != nil:
		return refuse(fmt.Sprintf("metadata is %s: expected a mapping", typeName(content["metadata"])))
	case content["metadata"] == nil && isToolConfig(apiVersion, kind):
		return refuse(notObject + "it configures a tool")
	case metadata == nil:
		return refuse("metadata is missing")
	case name == "":
		if prefix, _ := metadata["generateName"].(string); prefix != "" {
			return refuse("metadata.generateName is set but metadata.name is missing: an object that is applied again and again needs a fixed name")
		}
		return refuse("metadata.name is missing")
	}
	if namespace, has := metadata["namespace"]; has {
		if _, ok := namespace.(string); !ok && namespace != nil {
			return refuse(fmt.Sprintf("metadata.namespace is %s: expected text", typeName(namespace)))
		}
	}
	for _, field := range serverFields {
		delete(metadata, field)
	}
	hash, err := hashOf(content)
	if err != nil {
		return refuse(fmt.Sprintf("encode as JSON: %v", err))
	}
	return Object{Unstructured: u, Line: line, Hash: hash}, nil
}

// hashOf needs no canonical form of its own: encoding/json sorts the keys.
func hashOf(content map[string]any) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]), nil
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "a number"
}

// itemLines returns the lines of the items of a List.
func itemLines(text []byte) []int {
	var root yamlv3.Node
	if text == nil || yamlv3.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	items := child(root.Content[0], "items")
	if items == nil {
		return nil
	}
	lines := make([]int, len(items.Content))
	for i, item := range items.Content {
		lines[i] = item.Line
	}
	return lines
}

var (
	yamlLine = regexp.MustCompile(`line (\d+): `)
	// The parser reports these one line early; see the position handling of go-yaml.
	oneEarly = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or '[\]}]'|<document start>)`)
)

// yamlFaults turns an error of the YAML library, which may list several
// problems, into faults with lines between the first and the last of the text.
func yamlFaults(err error, first, last int) []problems.Problem {
	text := OneLine(err.Error())
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	places := yamlLine.FindAllStringSubmatchIndex(text, -1)
	if len(places) == 0 {
		return []problems.Problem{{Line: first, Message: text}}
	}
	byLine := map[int]problems.Problem{}
	for i, place := range places {
		end := len(text)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		line, _ := strconv.Atoi(text[place[2]:place[3]])
		message := strings.TrimSpace(text[place[1]:end])
		if oneEarly.MatchString(message) {
			line++
		}
		line = min(line, last)
		byLine[line] = problems.Problem{Line: line, Message: message}
	}
	faults := make([]problems.Problem, 0, len(byLine))
	for _, line := range slices.Sorted(maps.Keys(byLine)) {
		faults = append(faults, byLine[line])
	}
	return faults
}
