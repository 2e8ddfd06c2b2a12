package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiServer answers lists and watches in memory, as the transport of clients
// that live in a synctest bubble.
type apiServer struct {
	mu        sync.Mutex
	version   int
	resources map[string]*resource
	// requests are the queries that came, by path, and accepted the forms that answers may have.
	requests map[string][]url.Values
	accepted map[string]string
}

// resource is what is served at one path.
type resource struct {
	server           *apiServer
	apiVersion, kind string
	objects          map[string]map[string]any
	// log has what happened, the oldest first, from after the version oldest.
	log    []logged
	oldest int
	// absent is what it takes for NotFound; refused, if not zero, the status of all answers.
	absent  bool
	refused int
	// down is whether connections are refused; while silent is not nil, no request is answered before it is closed.
	down   bool
	silent chan struct{}
	// generation is that of the objects that are put.
	generation int
	// streams is whether a watch may begin with what there is.
	streams bool
	// ends is whether a watch ends as soon as it has begun.
	ends    bool
	watches map[chan []byte]struct{}
}

type logged struct {
	version int
	frame   []byte
}

func newAPIServer() *apiServer {
	return &apiServer{resources: map[string]*resource{}, requests: map[string][]url.Values{}, accepted: map[string]string{}}
}

func (a *apiServer) config() *rest.Config {
	return &rest.Config{Host: "http://apiserver", Transport: a, QPS: -1}
}

// serve adds a resource.
func (a *apiServer) serve(path, apiVersion, kind string) *resource {
	r := &resource{server: a, apiVersion: apiVersion, kind: kind, objects: map[string]map[string]any{}, watches: map[chan []byte]struct{}{}}
	a.resources[path] = r
	return r
}

// pathOf is where a kind is served; Secrets are those of the namespace linkerd.
func pathOf(info *KindInfo) string {
	switch {
	case info.id == Secrets.id:
		return "/api/v1/namespaces/linkerd/secrets"
	case info.GVR.Group == "":
		return "/api/" + info.GVR.Version + "/" + info.GVR.Resource
	}
	return "/apis/" + info.GVR.Group + "/" + info.GVR.Version + "/" + info.GVR.Resource
}

// serveKind adds the resource of a kind.
func (a *apiServer) serveKind(info *KindInfo) *resource {
	path := pathOf(info)
	if info.form == metadataOnly {
		return a.serve(path, "meta.k8s.io/v1", "PartialObjectMetadata")
	}
	return a.serve(path, info.GVK.GroupVersion().String(), info.GVK.Kind)
}

// serveDefinitions adds the definitions of custom resources.
func (a *apiServer) serveDefinitions() *resource {
	return a.serve("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "meta.k8s.io/v1", "PartialObjectMetadata")
}

func (a *apiServer) asked(path string) []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests[path])
}

// put stores an object; its content beside the metadata is fields.
func (r *resource) put(namespace, name string, fields map[string]any) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.version++
	key, event := objectKey(namespace, name), "ADDED"
	uid := strconv.Itoa(r.server.version)
	if old := r.objects[key]; old != nil {
		event, uid = "MODIFIED", old["metadata"].(map[string]any)["uid"].(string)
	}
	obj := map[string]any{"apiVersion": r.apiVersion, "kind": r.kind, "metadata": map[string]any{
		"namespace": namespace, "name": name, "uid": uid, "resourceVersion": strconv.Itoa(r.server.version), "generation": r.generation,
	}}
	maps.Copy(obj, fields)
	r.objects[key] = obj
	r.tell(event, obj)
}

// remove deletes an object, and all if the name is empty.
func (r *resource) remove(namespace, name string) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for key, obj := range r.objects {
		if name != "" && key != objectKey(namespace, name) {
			continue
		}
		r.server.version++
		delete(r.objects, key)
		meta := maps.Clone(obj["metadata"].(map[string]any))
		meta["resourceVersion"] = strconv.Itoa(r.server.version)
		last := maps.Clone(obj)
		last["metadata"] = meta
		r.tell("DELETED", last)
	}
}

// bookmark tells the watches the present version.
func (r *resource) bookmark() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for watch := range r.watches {
		watch <- r.mark(nil)
	}
}

func (r *resource) mark(annotations map[string]any) []byte {
	return frame("BOOKMARK", map[string]any{"apiVersion": r.apiVersion, "kind": r.kind, "metadata": map[string]any{
		"resourceVersion": strconv.Itoa(r.server.version), "annotations": annotations,
	}})
}

// compact forgets what happened; watches stay.
func (r *resource) compact() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.log, r.oldest = nil, r.server.version
}

// end closes the watches, after an error that is told if status is not zero.
func (r *resource) end(status int) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	for watch := range r.watches {
		if status != 0 {
			watch <- frame("ERROR", failure(status))
		}
		delete(r.watches, watch)
		close(watch)
	}
}

// set changes how requests are answered.
func (r *resource) set(change func()) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	change()
}

func (r *resource) tell(event string, obj any) {
	f := frame(event, obj)
	r.log = append(r.log, logged{r.server.version, f})
	for watch := range r.watches {
		watch <- f
	}
}

func frame(event string, obj any) []byte {
	return must(json.Marshal(map[string]any{"type": event, "object": obj}))
}

func failure(code int) metav1.Status {
	reasons := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 410: metav1.StatusReasonExpired, 400: metav1.StatusReasonBadRequest, 403: metav1.StatusReasonForbidden, 500: metav1.StatusReasonInternalError}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: http.StatusText(code), Code: int32(code), Reason: reasons[code]}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// RoundTrip answers one request.
func (a *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	query := request.URL.Query()
	a.requests[request.URL.Path] = append(a.requests[request.URL.Path], query)
	a.accepted[request.URL.Path] = request.Header.Get("Accept")
	r := a.resources[request.URL.Path]
	if r != nil && r.silent != nil {
		silent := r.silent
		a.mu.Unlock()
		select {
		case <-silent:
		case <-request.Context().Done():
		}
		a.mu.Lock()
	}
	switch {
	case request.Context().Err() != nil:
		return nil, request.Context().Err()
	case r != nil && r.down:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case r == nil || r.absent:
		return answer(http.StatusNotFound, failure(http.StatusNotFound)), nil
	case r.refused != 0:
		return answer(r.refused, failure(r.refused)), nil
	case query.Get("watch") == "":
		items := []any{}
		for _, key := range slices.Sorted(maps.Keys(r.objects)) {
			items = append(items, r.objects[key])
		}
		return answer(http.StatusOK, map[string]any{"apiVersion": r.apiVersion, "kind": r.kind + "List", "metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": items}), nil
	}
	watch := make(chan []byte, 1000)
	if query.Get("sendInitialEvents") == "true" {
		if !r.streams {
			return answer(http.StatusBadRequest, failure(http.StatusBadRequest)), nil
		}
		for _, obj := range r.objects {
			watch <- frame("ADDED", obj)
		}
		watch <- r.mark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
	} else {
		since, err := strconv.Atoi(query.Get("resourceVersion"))
		if err != nil || since < r.oldest {
			return answer(http.StatusGone, failure(http.StatusGone)), nil
		}
		for _, event := range r.log {
			if event.version > since {
				watch <- event.frame
			}
		}
	}
	if r.ends {
		close(watch)
	} else {
		r.watches[watch] = struct{}{}
	}
	reader, writer := io.Pipe()
	go func() {
		defer writer.Close()
		for {
			select {
			case event, open := <-watch:
				if !open {
					return
				}
				if _, err := writer.Write(event); err != nil {
					return
				}
			case <-request.Context().Done():
				writer.CloseWithError(request.Context().Err())
				return
			}
		}
	}()
	response := answer(http.StatusOK, nil)
	response.Body = reader
	return response, nil
}

func answer(code int, body any) *http.Response {
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(must(json.Marshal(body)))),
	}
}

// runState runs a State of the given kinds until the test ends.
func runState(t *testing.T, server *apiServer, config Config) *State {
	t.Helper()
	config.Cluster = cmp.Or(config.Cluster, LocalCluster)
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), server.config(), func() {}) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}
