package apiserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"
)

const (
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"

	contentJSON       = "application/json"
	contentV2Protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	contentV3Protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// otherNames are media types by which clients ask for one of the others.
var otherNames = map[string]string{
	"application/com.github.proto-openapi.spec.v2@v1.0+protobuf": contentV2Protobuf,
	"application/com.github.proto-openapi.spec.v3@v1.0+protobuf": contentV3Protobuf,
}

// openAPI serves /openapi/v2 and /openapi/v3. Built-in kinds are described by
// the program's own files, those of CustomResourceDefinitions by what is stored
// when somebody asks: nothing is kept, as only tools like kubectl ask, and most
// of them keep the answer.
//
// What Services that extend the API describe is not part of it.
type openAPI struct {
	builtin *descriptions
	// custom lists the definitions.
	custom func(context.Context) (customKinds, error)
	// policies are the only reason for which the server itself asks.
	policies admissionlisters.MutatingAdmissionPolicyLister
}

// listDefinitions asks the server itself.
func listDefinitions(config *rest.Config) (func(context.Context) (customKinds, error), error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for CustomResourceDefinitions: %w", err)
	}
	return func(ctx context.Context) (customKinds, error) {
		list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		return list.Items, nil
	}, nil
}

// before answers what is under /openapi itself and leaves the rest to next.
func (o *openAPI) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isGroup := strings.CutPrefix(r.URL.Path, openAPIV3Path+"/")
		var err error
		switch {
		case isGroup:
			err = o.groupVersion(w, r, path)
		case r.URL.Path == openAPIV3Path:
			err = o.list(w, r)
		case r.URL.Path == openAPIV2Path:
			err = o.all(w, r)
		default:
			next.ServeHTTP(w, r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// unused says that the server asks itself on behalf of mutating policies, which
// it does every five seconds, and that there are none.
func (o *openAPI) unused(r *http.Request) bool {
	asker, ok := request.UserFrom(r.Context())
	if !ok || asker.GetName() != user.APIServerUser {
		return false
	}
	policies, err := o.policies.List(labels.Everything())
	return err == nil && len(policies) == 0
}

// list answers with where the description of each group version is.
func (o *openAPI) list(w http.ResponseWriter, r *http.Request) error {
	etags := o.builtin.groupVersions()
	if !o.unused(r) {
		kinds, err := o.custom(r.Context())
		if err != nil {
			return err
		}
		maps.Copy(etags, kinds.groupVersions())
	}
	groups := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for path, etag := range etags {
		groups.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: groupVersionURL(path, etag)}
	}
	data, err := json.Marshal(groups)
	if err != nil {
		return err
	}
	serveDescription(w, r, contentJSON, fmt.Sprintf("%X", sha256.Sum256(data)), data)
	return nil
}

func groupVersionURL(path, etag string) string {
	return openAPIV3Path + "/" + path + "?hash=" + url.QueryEscape(etag)
}

// groupVersion answers with the description of one group version.
func (o *openAPI) groupVersion(w http.ResponseWriter, r *http.Request, path string) error {
	w.Header().Set("Vary", "Accept")
	media := acceptable(r, contentJSON, contentV3Protobuf)
	if media == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	etag := o.builtin.etag(v3EntryPrefix + path)
	read := func() ([]byte, error) { return o.builtin.read(v3EntryPrefix + path) }
	if etag == "" {
		kinds, err := o.custom(r.Context())
		if err != nil {
			return err
		}
		etag = kinds.groupVersions()[path]
		read = func() ([]byte, error) { return kinds.v3(path) }
	}
	if etag == "" {
		http.NotFound(w, r)
		return nil
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != etag {
			http.Redirect(w, r, groupVersionURL(path, etag), http.StatusMovedPermanently)
			return nil
		}
		// What has that hash never changes.
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	if isKnown(w, r, etag) {
		return nil
	}
	data, err := read()
	if err == nil && media == contentV3Protobuf {
		data, err = handler3.ToV3ProtoBinary(data)
	}
	if err != nil {
		return err
	}
	serveDescription(w, r, media, etag, data)
	return nil
}

// all answers with the description of version 2, which is one for all kinds.
func (o *openAPI) all(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	media := acceptable(r, contentJSON, contentV2Protobuf)
	if media == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	kinds, err := o.custom(r.Context())
	if err != nil {
		return err
	}
	content := sha256.New()
	fmt.Fprintln(content, o.builtin.etag(v2Start), media)
	custom := kinds.groupVersions()
	for _, path := range slices.Sorted(maps.Keys(custom)) {
		fmt.Fprintln(content, path, custom[path])
	}
	etag := fmt.Sprintf("%X", content.Sum(nil))
	if isKnown(w, r, etag) {
		return nil
	}
	paths, definitions, err := kinds.v2()
	if err != nil {
		return err
	}
	var data []byte
	if media == contentJSON {
		data, err = o.v2JSON(paths, definitions)
	} else {
		data, err = o.v2Protobuf(paths, definitions)
	}
	if err != nil {
		return err
	}
	serveDescription(w, r, media, etag, data)
	return nil
}

func (o *openAPI) v2JSON(paths, definitions []byte) ([]byte, error) {
	var pieces [3][]byte
	for i, entry := range []string{v2Start, v2Middle, v2End} {
		var err error
		if pieces[i], err = o.builtin.read(entry); err != nil {
			return nil, err
		}
	}
	return slices.Concat(pieces[0], members(paths), pieces[1], members(definitions), pieces[2]), nil
}

func (o *openAPI) v2Protobuf(paths, definitions []byte) ([]byte, error) {
	builtin, err := o.builtin.read(v2Protobuf)
	if err != nil {
		return nil, err
	}
	custom, err := v2Message(paths, definitions)
	if err != nil {
		return nil, err
	}
	return append(builtin, custom...), nil
}

// acceptable is the first of the client's media types that is on offer.
func acceptable(r *http.Request, offers ...string) string {
	accept := r.Header.Get("Accept")
	if accept == "" {
		accept = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		wanted := clause.Type + "/" + clause.SubType
		if name, ok := otherNames[wanted]; ok {
			wanted = name
		}
		for _, offer := range offers {
			if wanted == offer || wanted == "*/*" || wanted == "application/*" {
				return offer
			}
		}
	}
	return ""
}

// isKnown answers a client that has what it asks for.
func isKnown(w http.ResponseWriter, r *http.Request, etag string) bool {
	w.Header().Set("Etag", strconv.Quote(etag))
	known := r.Header.Get("If-None-Match") == strconv.Quote(etag)
	if known {
		w.WriteHeader(http.StatusNotModified)
	}
	return known
}

func serveDescription(w http.ResponseWriter, r *http.Request, media, etag string, data []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Etag", strconv.Quote(etag))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}
