package manifests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/plan"
	"github.com/linkerd-lite/linkerd-lite/embedded/manifests/source"
)

// fakeAPI is as much of an API server as a Syncer sees: discovery, apply, delete,
// and metadata with managed fields. The real one is used by the whole-product
// tests; this one counts requests and can be made to misbehave.
type fakeAPI struct {
	server *httptest.Server
	mu     sync.Mutex
	// served is by group version, then kind.
	served  map[string]map[string]metav1.APIResource
	objects map[source.Key]map[string]any
	log     []string
	// refuse may answer a request for an object.
	refuse func(method string, key source.Key, body map[string]any) *metav1.Status
	// dead are group versions whose own server does not answer.
	dead map[string]bool
	// crdDelay is how long a kind takes to be served after its CRD.
	crdDelay time.Duration
}

func newFakeAPI(t testing.TB) *fakeAPI {
	t.Helper()
	f := &fakeAPI{objects: map[source.Key]map[string]any{}, served: map[string]map[string]metav1.APIResource{}, dead: map[string]bool{}}
	f.serve("v1", "Namespace", "namespaces", false, true)
	f.serve("v1", "ConfigMap", "configmaps", true, false)
	f.serve("v1", "Service", "services", true, true)
	f.serve("v1", "Pod", "pods", true, true)
	f.serve("v1", "ServiceAccount", "serviceaccounts", true, false)
	f.serve("apps/v1", "Deployment", "deployments", true, true)
	f.serve("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false, false)
	f.serve("apiregistration.k8s.io/v1", "APIService", "apiservices", false, true)
	f.serve("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", false, true)
	for _, name := range []string{"kube-system", "default", "ns"} {
		f.objects[source.Key{Kind: "Namespace", Name: name}] = map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name, "uid": "uid-" + name},
		}
	}
	f.server = httptest.NewServer(f)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeAPI) config() *rest.Config { return &rest.Config{Host: f.server.URL, QPS: -1} }

func (f *fakeAPI) serve(gv, kind, resource string, namespaced, status bool) {
	if f.served[gv] == nil {
		f.served[gv] = map[string]metav1.APIResource{}
	}
	verbs := metav1.Verbs{"get", "list", "patch", "delete", "create"}
	f.served[gv][kind] = metav1.APIResource{Name: resource, Kind: kind, Namespaced: namespaced, Verbs: verbs}
	if status {
		f.served[gv][kind+"/status"] = metav1.APIResource{Name: resource + "/status", Kind: kind, Namespaced: namespaced, Verbs: verbs}
	}
}

// crd is what a test's CRD object looks like; only these fields matter here.
func crd(group, kind, plural string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.%s}
spec: {group: %s, names: {kind: %s, plural: %s}, scope: Namespaced, versions: [{name: v1}]}
`, plural, group, group, kind, plural)
}

// requests returns the writes so far that begin with prefix, such as "DELETE".
func (f *fakeAPI) requests(prefix string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for _, line := range f.log {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

func (f *fakeAPI) get(key source.Key) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[key]
}

// edit changes an object as kubectl would: the fields change hands.
func (f *fakeAPI) edit(key source.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key]["fields"] = `{"f:other":{}}`
}

// share adds another manager who applied the object.
func (f *fakeAPI) share(key source.Key, manager string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[key]["sharedWith"] = manager
}

func (f *fakeAPI) remove(key source.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delete(key)
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/apis":
		f.groups(w)
	case parts[0] == "api" && len(parts) == 2:
		f.resources(w, "v1")
	case parts[0] == "apis" && len(parts) == 3:
		f.resources(w, parts[1]+"/"+parts[2])
	case parts[0] == "api" && len(parts) > 2:
		f.object(w, r, "v1", parts[2:])
	case parts[0] == "apis" && len(parts) > 3:
		f.object(w, r, parts[1]+"/"+parts[2], parts[3:])
	default:
		f.fail(w, http.StatusNotFound, "the server could not find the requested resource", nil)
	}
}

func (f *fakeAPI) groups(w http.ResponseWriter) {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for gv := range f.served {
		if group, version, ok := strings.Cut(gv, "/"); ok {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: gv, Version: version}}})
		}
	}
	f.answer(w, http.StatusOK, list)
}

func (f *fakeAPI) resources(w http.ResponseWriter, gv string) {
	if f.dead[gv] {
		f.fail(w, http.StatusServiceUnavailable, "the server is currently unable to handle the request", nil)
		return
	}
	kinds, ok := f.served[gv]
	if !ok {
		f.fail(w, http.StatusNotFound, "the server could not find the requested resource", nil)
		return
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for _, r := range kinds {
		list.APIResources = append(list.APIResources, r)
	}
	f.answer(w, http.StatusOK, list)
}

func (f *fakeAPI) object(w http.ResponseWriter, r *http.Request, gv string, path []string) {
	namespace := ""
	if path[0] == "namespaces" && len(path) > 2 && path[2] != "status" {
		namespace, path = path[1], path[2:]
	}
	kind := ""
	for name, res := range f.served[gv] {
		if res.Name == path[0] {
			kind = name
		}
	}
	if kind == "" {
		f.fail(w, http.StatusNotFound, "the server could not find the requested resource", nil)
		return
	}
	group, _, _ := strings.Cut(gv, "/")
	if gv == "v1" {
		group = ""
	}
	if len(path) == 1 {
		if !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			f.listWhole(w, group, kind)
			return
		}
		f.list(w, group, kind)
		return
	}
	key := source.Key{Group: group, Kind: kind, Namespace: namespace, Name: path[1]}
	var body map[string]any
	if r.Method == http.MethodPatch && r.Header.Get("Content-Type") == string(types.JSONPatchType) {
		f.restore(w, r, key)
		return
	}
	if r.Method == http.MethodPatch {
		data, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(data, &body) != nil {
			f.fail(w, http.StatusBadRequest, "body", nil)
			return
		}
	}
	if f.refuse != nil {
		if status := f.refuse(r.Method, key, body); status != nil {
			f.answer(w, int(status.Code), status)
			return
		}
	}
	switch r.Method {
	case http.MethodPatch:
		f.apply(w, r, key, body, len(path) > 2)
	case http.MethodDelete:
		f.log = append(f.log, "DELETE "+key.String())
		if f.objects[key] == nil {
			f.notFound(w, key)
			return
		}
		if finalizers := f.meta(key).Finalizers; len(finalizers) > 0 {
			f.objects[key]["deleted"] = true
		} else {
			f.delete(key)
		}
		f.answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	default:
		if f.objects[key] == nil {
			f.notFound(w, key)
			return
		}
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
			f.answer(w, http.StatusOK, f.meta(key))
			return
		}
		f.answer(w, http.StatusOK, f.objects[key])
	}
}

func (f *fakeAPI) delete(key source.Key) {
	object := f.objects[key]
	delete(f.objects, key)
	switch key.Kind {
	case "Namespace":
		for other := range f.objects {
			if other.Namespace == key.Name {
				delete(f.objects, other)
			}
		}
	case "CustomResourceDefinition":
		gk, _ := plan.DefinedKind(&unstructured.Unstructured{Object: object})
		delete(f.served, gk.Group+"/v1")
		for other := range f.objects {
			if other.GroupKind() == gk {
				delete(f.objects, other)
			}
		}
	}
}

func (f *fakeAPI) apply(w http.ResponseWriter, r *http.Request, key source.Key, body map[string]any, status bool) {
	if ns := (source.Key{Kind: "Namespace", Name: key.Namespace}); key.Namespace != "" && f.objects[ns] == nil {
		f.notFound(w, ns)
		return
	}
	verb := "APPLY "
	if status {
		verb = "STATUS "
	}
	if r.URL.Query().Get("dryRun") != "" {
		f.log = append(f.log, "DRY"+verb+key.String())
	} else {
		f.log = append(f.log, verb+key.String())
		object := f.objects[key]
		if object == nil {
			object = map[string]any{"uid": fmt.Sprint(len(f.log))}
		}
		if status {
			object["status"] = body["status"]
		} else {
			data, _ := json.Marshal(body)
			for name, value := range body {
				object[name] = value
			}
			object["fields"] = string(data)
		}
		f.objects[key] = object
		if gk, ok := plan.DefinedKind(&unstructured.Unstructured{Object: body}); ok && key.Kind == "CustomResourceDefinition" && !status {
			plural, _, _ := unstructured.NestedString(body, "spec", "names", "plural")
			time.AfterFunc(f.crdDelay, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.serve(gk.Group+"/v1", gk.Kind, plural, true, true)
			})
		}
	}
	f.answer(w, http.StatusOK, f.metaOf(key, f.objects[key]))
}

// restore is a JSON patch that sets top-level fields.
func (f *fakeAPI) restore(w http.ResponseWriter, r *http.Request, key source.Key) {
	var patch []struct {
		Path  string
		Value any
	}
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		f.fail(w, http.StatusBadRequest, err.Error(), nil)
		return
	}
	if patch[0].Path == "/metadata/managedFields" && len(patch) == 2 {
		f.objects[key]["version"] = patch[0].Value.([]any)[0].(map[string]any)["apiVersion"]
		f.answer(w, http.StatusOK, f.meta(key))
		return
	}
	f.log = append(f.log, "PATCH "+key.String()+" by "+r.URL.Query().Get("fieldManager"))
	for _, op := range patch {
		if name := strings.TrimPrefix(op.Path, "/"); !strings.Contains(name, "/") {
			f.objects[key][name] = op.Value
		}
	}
	delete(f.objects[key], "fields")
	f.answer(w, http.StatusOK, f.meta(key))
}

func (f *fakeAPI) meta(key source.Key) metav1.PartialObjectMetadata {
	return f.metaOf(key, f.objects[key])
}

func (f *fakeAPI) metaOf(key source.Key, object map[string]any) metav1.PartialObjectMetadata {
	m := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		uid, _ := metadata["uid"].(string)
		m.UID = types.UID(uid)
		m.Labels, _, _ = unstructured.NestedStringMap(metadata, "labels")
		m.Finalizers, _, _ = unstructured.NestedStringSlice(metadata, "finalizers")
	}
	if object["deleted"] != nil {
		now := metav1.Now()
		m.DeletionTimestamp = &now
	}
	if fields, ok := object["fields"].(string); ok {
		now := metav1.Now()
		m.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)},
			{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`)},
		}
	}
	if version, ok := object["version"].(string); ok {
		for i := range m.ManagedFields {
			m.ManagedFields[i].APIVersion = version
		}
	}
	if manager, ok := object["sharedWith"].(string); ok {
		m.ManagedFields = append(m.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply})
	}
	return m
}

func (f *fakeAPI) list(w http.ResponseWriter, group, kind string) {
	list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
	for key := range f.objects {
		if key.Group == group && key.Kind == kind {
			list.Items = append(list.Items, f.meta(key))
		}
	}
	slices.SortFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int { return strings.Compare(a.Name, b.Name) })
	f.answer(w, http.StatusOK, list)
}

func (f *fakeAPI) listWhole(w http.ResponseWriter, group, kind string) {
	items := []any{}
	for key, object := range f.objects {
		if key.Group == group && key.Kind == kind {
			items = append(items, object)
		}
	}
	f.answer(w, http.StatusOK, map[string]any{"kind": kind + "List", "items": items})
}

func (f *fakeAPI) notFound(w http.ResponseWriter, key source.Key) {
	plural := strings.ToLower(key.Kind) + "s"
	f.fail(w, http.StatusNotFound, fmt.Sprintf("%s %q not found", plural, key.Name), &metav1.StatusDetails{Name: key.Name, Kind: plural})
}

func (f *fakeAPI) fail(w http.ResponseWriter, code int, message string, details *metav1.StatusDetails) {
	reasons := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusBadRequest: metav1.StatusReasonBadRequest}
	f.answer(w, code, failed(code, reasons[code], message, details))
}

// failed is a status as an API server answers with.
func failed(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, Details: details,
	}
}

func (f *fakeAPI) answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a client that is gone is no concern of the fake's
}
