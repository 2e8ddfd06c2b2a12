package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/quantity"
)

// quantityGuard refuses requests with quantities for which the server would
// compute for minutes and gigabytes while it decodes them, such as a limit of
// 1e-1000000000. It looks at bodies before anybody decodes them.
type quantityGuard struct {
	// kinds are the built-in types, and resources those of their objects.
	kinds     map[schema.GroupVersionKind]reflect.Type
	resources map[schema.GroupVersionResource]reflect.Type
	codecs    runtime.NegotiatedSerializer
	// maxBody is the size of the largest body that the server decodes, in bytes.
	maxBody     int64
	longRunning apirequest.LongRunningRequestCheck
}

func newQuantityGuard(scheme *runtime.Scheme, codecs runtime.NegotiatedSerializer, maxBody int64, longRunning apirequest.LongRunningRequestCheck) *quantityGuard {
	g := &quantityGuard{
		kinds: scheme.AllKnownTypes(), resources: map[schema.GroupVersionResource]reflect.Type{},
		codecs: codecs, maxBody: maxBody, longRunning: longRunning,
	}
	for kind, t := range g.kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		g.resources[plural] = t
	}
	return g
}

func (g *quantityGuard) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !writing.Has(info.Verb) || g.longRunning(r, info) || r.Body == nil {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, g.maxBody+1))
		if err != nil {
			http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
			return
		}
		// The server itself refuses what is too long.
		if int64(len(body)) <= g.maxBody && quantity.Suspect(body) {
			t := g.resources[schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}]
			if err := g.check(body, r.Header.Get("Content-Type"), t); err != nil {
				version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
				responsewriters.ErrorNegotiated(refusal(err, info, t), g.codecs, version, w, r)
				return
			}
		}
		r.Body = readCloser{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		next.ServeHTTP(w, r)
	})
}

type readCloser struct {
	io.Reader
	io.Closer
}

// check looks at a body for objects of type t, which is nil for kinds that are
// not built in: their quantities are text.
func (g *quantityGuard) check(body []byte, contentType string, t reflect.Type) error {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = contentType
	}
	switch media {
	case runtime.ContentTypeProtobuf:
		return quantity.CheckProtobuf(body)
	case string(types.JSONPatchType):
		return quantity.CheckPatch(body, t)
	case runtime.ContentTypeYAML, string(types.ApplyYAMLPatchType):
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil // as the server will say
		}
	}
	if err := quantity.CheckJSON(body, t); err != nil {
		return err
	}
	// The body of a subresource, such as an eviction, is of another kind.
	var kind metav1.TypeMeta
	if json.Unmarshal(body, &kind) != nil {
		return nil
	}
	if own := g.kinds[kind.GroupVersionKind()]; own != nil && own != t {
		return quantity.CheckJSON(body, own)
	}
	return nil
}

// refusal is the answer that validation would have given.
func refusal(err error, info *apirequest.RequestInfo, t reflect.Type) error {
	var at *quantity.FieldError
	if !errors.As(err, &at) || at.Field == "" || t == nil {
		return apierrors.NewBadRequest(err.Error())
	}
	group := schema.GroupKind{Group: info.APIGroup, Kind: t.Name()}
	value := at.Value[:min(len(at.Value), 20)]
	return apierrors.NewInvalid(group, info.Name, field.ErrorList{field.Invalid(field.NewPath(at.Field), value, at.Err.Error())})
}
