package crds

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestSchemas compares the definitions with the tables of testdata/schemas.txt, both as lists of fields.
func TestSchemas(t *testing.T) {
	builtin, err := Builtin(true)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, crd := range builtin {
		describe(got, crd)
	}
	want := readTables(t, "testdata/schemas.txt")
	for title := range got {
		if want[title] == nil {
			t.Errorf("%s: not in the tables", title)
		}
	}
	for title, lines := range want {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(lines, got[title]); diff != "" {
				t.Errorf("tables to definitions:\n%s", diff)
			}
		})
	}
}

// describe adds the lines of all versions of a definition to out.
func describe(out map[string][]string, crd *apiextensionsv1.CustomResourceDefinition) {
	names := crd.Spec.Names
	attributes := []string{names.Kind, crd.Spec.Group, names.Plural}
	if len(names.ShortNames) > 0 {
		attributes = append(attributes, "short="+strings.Join(names.ShortNames, ","))
	}
	if len(names.Categories) > 0 {
		attributes = append(attributes, "categories="+strings.Join(names.Categories, ","))
	}
	if crd.Name != names.Plural+"."+crd.Spec.Group || crd.Spec.Scope != apiextensionsv1.NamespaceScoped ||
		crd.Spec.Conversion != nil || crd.Spec.PreserveUnknownFields || names.Singular != strings.ToLower(names.Kind) {
		attributes = append(attributes, "odd")
	}
	for _, version := range crd.Spec.Versions {
		first := []string{version.Name}
		for _, flag := range []struct {
			name string
			set  bool
		}{
			{"unserved", !version.Served},
			{"storage", version.Storage},
			{"deprecated", version.Deprecated && version.DeprecationWarning != nil},
			{"status", version.Subresources != nil && version.Subresources.Status != nil},
		} {
			if flag.set {
				first = append(first, flag.name)
			}
		}
		var columns []string
		for _, column := range version.AdditionalPrinterColumns {
			columns = append(columns, strings.ReplaceAll(column.Name, " ", "_")+":"+column.Type+":"+column.JSONPath)
		}
		if columns != nil {
			first = append(first, "columns="+strings.Join(columns, ","))
		}
		var fields []string
		root := version.Schema.OpenAPIV3Schema
		for _, name := range []string{"spec", "status"} {
			if property, ok := root.Properties[name]; ok {
				fields = flatten(fields, name, &property, slices.Contains(root.Required, name))
			}
		}
		slices.Sort(fields)
		title := strings.Join([]string{names.Kind, crd.Spec.Group, version.Name}, " ")
		out[title] = append([]string{strings.Join(attributes, " "), strings.Join(first, " ")}, fields...)
	}
}

// flatten adds a line for the schema of a field, and one for each field below it.
func flatten(lines []string, path string, schema *apiextensionsv1.JSONSchemaProps, required bool) []string {
	kind, element := schema.Type, schema
	if schema.XIntOrString {
		kind = "int-or-string"
	}
	attributes := map[string]string{}
	if schema.Items != nil {
		element = schema.Items.Schema
		kind = "[" + element.Type + "]"
		path += "[]"
	}
	set := func(name, value string) {
		if value != "" && value != ".." {
			attributes[name] = value
		}
	}
	flag := func(name string, on bool) {
		if on {
			attributes[name] = ""
		}
	}
	flag("req", required)
	set("format", schema.Format)
	set("pattern", schema.Pattern)
	set("len", bounds(schema.MinLength, schema.MaxLength))
	set("items", bounds(schema.MinItems, schema.MaxItems))
	set("num", bounds(schema.Minimum, schema.Maximum))
	set("enum", enum(schema.Enum))
	if schema.Default != nil {
		set("default", canonical(schema.Default.Raw))
	}
	flag("preserve", schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields)
	flag("setlist", schema.XListType != nil && *schema.XListType == "set")
	set("maplist", strings.Join(schema.XListMapKeys, ","))
	set("oneof", oneOf(schema))
	if element != schema {
		set("itempattern", element.Pattern)
		set("itemlen", bounds(element.MinLength, element.MaxLength))
		flag("preserveitems", element.XPreserveUnknownFields != nil && *element.XPreserveUnknownFields)
		set("itemoneof", oneOf(element))
		set("itemenum", enum(element.Enum))
	}
	flag("additional", schema.AdditionalProperties != nil || element.AdditionalProperties != nil)
	lines = append(lines, line(path, kind, attributes))
	for name, property := range element.Properties {
		lines = flatten(lines, path+"."+name, &property, slices.Contains(element.Required, name))
	}
	return lines
}

func line(path, kind string, attributes map[string]string) string {
	var texts []string
	for name, value := range attributes {
		if value != "" {
			name += "=" + value
		}
		texts = append(texts, name)
	}
	slices.Sort(texts)
	return strings.Join(append([]string{path, kind}, texts...), " ")
}

func bounds[N int64 | float64](low, high *N) string {
	text := ".."
	if low != nil {
		text = strconv.FormatFloat(float64(*low), 'f', -1, 64) + text
	}
	if high != nil {
		text += strconv.FormatFloat(float64(*high), 'f', -1, 64)
	}
	return text
}

func enum(values []apiextensionsv1.JSON) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, strings.Trim(string(value.Raw), `"`))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "|")
}

// oneOf is the list of fields of which a schema, or the rule that the generator makes of one, wants exactly one.
func oneOf(schema *apiextensionsv1.JSONSchemaProps) string {
	var fields []string
	for _, rule := range schema.XValidations {
		if list, ok := strings.CutPrefix(rule.Message, "exactly one of the fields in ["); ok {
			fields = strings.Fields(strings.TrimSuffix(list, "] must be set"))
		}
	}
	slices.Sort(fields)
	return strings.Join(fields, "|")
}

func canonical(data []byte) string {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err.Error()
	}
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// node is a field of the tables with the fields below it.
type node struct {
	name, kind string
	attributes map[string]string
	children   []*node
}

// tables reads testdata/schemas.txt.
type tables struct {
	patterns  map[string]string
	fragments map[string]*node
}

func readTables(t *testing.T, file string) map[string][]string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	all := tables{patterns: map[string]string{}, fragments: map[string]*node{}}
	out := map[string][]string{}
	type version struct {
		title string
		head  []string
		root  *node
	}
	var versions []*version
	var kind []string
	var stack []*node
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		text := scanner.Text()
		words := strings.Fields(text)
		if len(words) == 0 || strings.HasPrefix(text, "#") {
			continue
		}
		depth := (len(text) - len(strings.TrimLeft(text, " "))) / 2
		directive := words[0]
		if depth > 0 {
			directive = ""
		}
		switch directive {
		case "pattern":
			all.patterns[words[1]] = words[2]
			continue
		case "fragment":
			root := &node{}
			all.fragments[words[1]], stack = root, []*node{root}
			continue
		case "kind":
			kind = words[1:]
			continue
		case "version":
			root := &node{}
			versions = append(versions, &version{
				title: strings.Join([]string{kind[0], kind[1], words[1]}, " "),
				head:  []string{strings.Join(kind, " "), strings.Join(words[1:], " ")},
				root:  root,
			})
			stack = []*node{root}
			continue
		}
		field := &node{name: words[0], kind: words[1], attributes: map[string]string{}}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			field.attributes[name] = value
		}
		stack = stack[:depth]
		parent := stack[depth-1]
		parent.children = append(parent.children, field)
		stack = append(stack, field)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		var fields []string
		for _, child := range v.root.children {
			fields = all.flatten(fields, child.name, child)
		}
		slices.Sort(fields)
		out[v.title] = append(v.head, fields...)
	}
	return out
}

func (a tables) flatten(lines []string, path string, field *node) []string {
	children := field.children
	kind := field.kind
	inner, array := strings.CutPrefix(kind, "[")
	inner = strings.TrimSuffix(inner, "]")
	if fragment := a.fragments[inner]; fragment != nil {
		children = append(slices.Clone(fragment.children), children...)
		kind = strings.Replace(kind, inner, "object", 1)
	}
	if array {
		path += "[]"
	}
	attributes := map[string]string{}
	for name, value := range field.attributes {
		switch name {
		case "pattern", "itempattern":
			if a.patterns[value] == "" {
				panic(fmt.Sprintf("no pattern %s", value))
			}
			value = a.patterns[value]
		case "enum", "oneof":
			values := strings.Split(value, "|")
			slices.Sort(values)
			value = strings.Join(values, "|")
		}
		attributes[name] = value
	}
	lines = append(lines, line(path, kind, attributes))
	for _, child := range children {
		lines = a.flatten(lines, path+"."+child.name, child)
	}
	return lines
}
