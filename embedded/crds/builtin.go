package crds

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// hashAnnotation holds a digest of the built-in definition that an object was made from. It tells whether a later
// version of the program has another definition.
const hashAnnotation = "lite.linkerd.io/builtin"

const gatewayGroup = "gateway.networking.k8s.io"

//go:embed builtin
var files embed.FS

// Builtin returns the definitions of Linkerd's kinds and, if wanted, those of the Gateway API's routes.
func Builtin(gatewayAPI bool) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "builtin/*")
	if err != nil {
		return nil, err
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		if !gatewayAPI && strings.HasPrefix(name, "builtin/"+gatewayGroup) {
			continue
		}
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(data, crd); err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		sum := sha256.Sum256(data)
		crd.Annotations[hashAnnotation] = hex.EncodeToString(sum[:8])
		crds = append(crds, crd)
	}
	return crds, nil
}
