package source

import (
	"bytes"
	"net/url"
	"path/filepath"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// inline are the fields of kustomizations whose text is used as it is. Every other one may
// name a file, for which kustomize takes a URL too.
var inline = map[string]bool{
	"literals": true, "commonAnnotations": true, "commonLabels": true, "labels": true, "annotations": true, "metadata": true,
	"patch": true, "images": true, "helmCharts": true, "helmGlobals": true, "value": true, "buildMetadata": true,
}

// remoteIn finds what a kustomization file, or a configuration of one of kustomize's own plugins,
// would fetch from elsewhere; empty: nothing.
func remoteIn(path string, data []byte) string {
	if isKustomization(filepath.Base(path)) {
		if refs, err := readReferences(path, data); err == nil && len(refs.remote) > 0 {
			return refs.remote[0]
		}
	} else if !bytes.Contains(data, []byte("builtin")) {
		return ""
	}
	for _, c := range splitYAML(data) {
		var root yamlv3.Node
		if yamlv3.Unmarshal(c.text, &root) != nil {
			continue // kustomize says it better
		}
		if remote := remoteNode(&root); remote != "" {
			return remote
		}
	}
	return ""
}

func remoteNode(node *yamlv3.Node) string {
	switch node.Kind {
	case yamlv3.ScalarNode:
		return remoteText(node.Value)
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if inline[node.Content[i].Value] {
				continue
			}
			if remote := remoteNode(node.Content[i+1]); remote != "" {
				return remote
			}
		}
	default: // what an alias stands for is looked at in its own place
		for _, item := range node.Content {
			if remote := remoteNode(item); remote != "" {
				return remote
			}
		}
	}
	return ""
}

// remoteText looks at a path, a KEY=path, or a configuration that is written inline.
func remoteText(text string) string {
	if strings.Contains(text, "\n") && strings.Contains(text, "builtin") {
		return remoteIn("inline", []byte(text))
	}
	for rest, more := text, true; more; _, rest, more = strings.Cut(rest, "=") {
		if u, err := url.Parse(rest); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			return rest
		}
	}
	return ""
}
