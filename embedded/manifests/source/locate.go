package source

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// locate returns the line of a field such as spec.ports[0].port of the
// object that begins on line start of a YAML file, or of the last step of
// the path that is there. It returns start if it finds nothing.
func locate(data []byte, start int, field string) int {
	data = bytes.TrimPrefix(data, byteOrderMark)
	for _, c := range splitYAML(data) {
		last := c.line + bytes.Count(c.text, []byte("\n"))
		if start < c.line || start > last {
			continue
		}
		var root yamlv3.Node
		if yamlv3.Unmarshal(c.text, &root) != nil || len(root.Content) == 0 {
			return start
		}
		node := objectAt(root.Content[0], start-c.line+1)
		if node == nil {
			return start
		}
		if line := follow(node, field); line > 0 {
			return c.line - 1 + line
		}
		return start
	}
	return start
}

// objectAt returns root, or the item of the List root that begins on line.
func objectAt(root *yamlv3.Node, line int) *yamlv3.Node {
	kind := child(root, "kind")
	if kind == nil || !strings.HasSuffix(kind.Value, "List") {
		return root
	}
	items := child(root, "items")
	if items == nil {
		return root
	}
	for _, item := range items.Content {
		if item.Line == line {
			return item
		}
	}
	return nil
}

var fieldStep = regexp.MustCompile(`\[([^\]]*)\]|[^.\[\]]+`)

// follow returns the line of the deepest step of field below node, 0 if there
// is not even the first.
func follow(node *yamlv3.Node, field string) int {
	line := 0
	for _, match := range fieldStep.FindAllStringSubmatch(field, -1) {
		if node.Kind == yamlv3.AliasNode {
			node = node.Alias
		}
		step, index := match[0], match[1]
		if strings.HasPrefix(step, "[") {
			if i, err := strconv.Atoi(index); err == nil && node.Kind == yamlv3.SequenceNode && i < len(node.Content) {
				node = node.Content[i]
				line = node.Line
				continue
			}
			next := child(node, index)
			if next == nil {
				next = itemWith(node, index)
			}
			if node = next; node == nil {
				return line
			}
			line = node.Line
			continue
		}
		key, value := entry(node, step)
		if key == nil {
			return line
		}
		line, node = key.Line, value
	}
	return line
}

// itemWith returns the item of a list that has the keys of a selector such as
// port=80,protocol="TCP", as far as it has them at all: defaults are not written out.
func itemWith(list *yamlv3.Node, selector string) *yamlv3.Node {
	if list.Kind != yamlv3.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		matches := false
		for _, pair := range strings.Split(selector, ",") {
			name, want, _ := strings.Cut(pair, "=")
			value := child(item, name)
			if value == nil {
				continue
			}
			if matches = value.Value == strings.Trim(want, `"`); !matches {
				break
			}
		}
		if matches {
			return item
		}
	}
	return nil
}

func child(node *yamlv3.Node, name string) *yamlv3.Node {
	_, value := entry(node, name)
	return value
}

func entry(node *yamlv3.Node, name string) (key, value *yamlv3.Node) {
	if node.Kind != yamlv3.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}
