package apiserver

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha512"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/embedded/etcd"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
	"github.com/linkerd-lite/linkerd-lite/test/parts"
)

var update = flag.Bool("update", false, "write the descriptions anew")

// The archive says what the server would compute, which it does here in
// Kubernetes' own way.
func TestDescriptions(t *testing.T) {
	rulebook.Covers(t, "C3")
	computed := computedDescriptions(t)
	if *update {
		if err := os.WriteFile("descriptions.zip", archive(t, computed), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	stored, err := openDescriptions(descriptionsZip)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(computed)), slices.Sorted(maps.Keys(stored.entries))); diff != "" {
		t.Fatalf("entries (-computed +stored), see go generate:\n%s", diff)
	}
	for name, want := range computed {
		got, err := stored.read(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s has changed: run go generate ./embedded/apiserver", name)
		}
	}
}

// computedDescriptions are the entries of the archive.
func computedDescriptions(t *testing.T) map[string][]byte {
	t.Helper()
	server := newStoredServer(t, Config{})
	building.Lock()
	defer building.Unlock()
	completed, err := server.complete(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config, err := newConfig(completed)
	if err != nil {
		t.Fatal(err)
	}
	configured, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := app.CreateServerChain(configured)
	if err != nil {
		t.Fatal(err)
	}
	defer chain.GenericAPIServer.Destroy()
	if _, err := chain.PrepareRun(); err != nil {
		t.Fatal(err)
	}
	get := func(path, accept string) []byte {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Accept", accept)
		chain.GenericAPIServer.Handler.NonGoRestfulMux.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: status %d: %s", path, answer.Code, answer.Body)
		}
		return answer.Body.Bytes()
	}
	entries := pieces(t, get(openAPIV2Path, contentJSON))
	entries[v2Protobuf] = get(openAPIV2Path, contentV2Protobuf)
	var groups handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(get(openAPIV3Path, contentJSON), &groups); err != nil {
		t.Fatal(err)
	}
	for path := range groups.Paths {
		entries[v3EntryPrefix+path] = get(openAPIV3Path+"/"+path, contentJSON)
	}
	return entries
}

// newStoredServer is a server on loopback with a store of its own, which runs. Keys are made unless there are some.
func newStoredServer(t *testing.T, config Config) *Server {
	t.Helper()
	socket, err := os.MkdirTemp("", "apiserver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(socket) })
	log := slog.New(slog.DiscardHandler)
	store, err := etcd.New(etcd.Config{Dir: t.TempDir(), Socket: filepath.Join(socket, "s"), UnsafeNoFsync: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	parts.Start(t, time.Minute, store.Run)
	if config.Keys == nil {
		if config.Keys, err = LoadKeys(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if config.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { config.Listener.Close() })
	config.EtcdServers, config.ServiceCIDR, config.Log = []string{store.Endpoint()}, "10.96.0.0/12", log
	server, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// pieces cuts the description of version 2 behind the braces of its paths and
// definitions.
func pieces(t *testing.T, document []byte) map[string][]byte {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(document))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	at := map[string]int64{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		at[key.(string)] = decoder.InputOffset() + int64(len(`:{`))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	paths, definitions := at["paths"], at["definitions"]
	if paths == 0 || definitions < paths {
		t.Fatalf("paths at %d, definitions at %d", paths, definitions)
	}
	return map[string][]byte{v2Start: document[:paths], v2Middle: document[paths:definitions], v2End: document[definitions:]}
}

// archive packs entries, always in the same way.
func archive(t *testing.T, entries map[string][]byte) []byte {
	t.Helper()
	v2 := sha512.New()
	for _, name := range []string{v2Start, v2Middle, v2End} {
		v2.Write(entries[name])
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		etag := fmt.Sprintf("%X", sha512.Sum512(entries[name]))
		if strings.HasPrefix(name, "v2/") {
			etag = fmt.Sprintf("%X", v2.Sum(nil))
		}
		entry, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Comment: etag})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write(entries[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shirts is a definition as the server keeps it, with two versions of which one is served.
const shirts = `
metadata: {name: shirts.example.com, uid: u1, resourceVersion: "7"}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shirts, singular: shirt, kind: Shirt, listKind: ShirtList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string, enum: [red, blue], default: red}, size: {x-kubernetes-int-or-string: true}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v1alpha1, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
status:
  conditions: [{type: Established, status: "True"}]
`

func describing(t *testing.T, definitions ...string) *openAPI {
	t.Helper()
	builtin, err := openDescriptions(descriptionsZip)
	if err != nil {
		t.Fatal(err)
	}
	var kinds customKinds
	for _, text := range definitions {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(text), &definition); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, definition)
	}
	return &openAPI{builtin: builtin, custom: func(context.Context) (customKinds, error) { return kinds, nil }}
}

func ask(t *testing.T, o *openAPI, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	o.before(http.NotFoundHandler()).ServeHTTP(answer, request)
	return answer
}

func TestOpenAPIV3(t *testing.T) {
	o := describing(t, shirts, strings.NewReplacer("shirts", "hats", "shirt", "hat", "Shirt", "Hat", `"True"`, `"False"`).Replace(shirts))
	var groups handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(ask(t, o, "/openapi/v3").Body.Bytes(), &groups); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/apiregistration.k8s.io/v1", "apis/apiextensions.k8s.io/v1", "apis/example.com/v1"} {
		if _, ok := groups.Paths[path]; !ok {
			t.Errorf("%s is not listed", path)
		}
	}
	if _, ok := groups.Paths["apis/example.com/v1alpha1"]; ok {
		t.Error("a version that is not served is listed")
	}
	for path, group := range groups.Paths {
		answer := ask(t, o, group.ServerRelativeURL, "Accept", "application/json")
		var document struct{ Paths map[string]any }
		if err := json.Unmarshal(answer.Body.Bytes(), &document); err != nil || answer.Code != http.StatusOK || len(document.Paths) == 0 {
			t.Errorf("%s: status %d, %d paths, %v", path, answer.Code, len(document.Paths), err)
		}
		if answer.Header().Get("Cache-Control") != "public, immutable" {
			t.Errorf("%s: headers %v", path, answer.Header())
		}
	}
	custom := ask(t, o, "/openapi/v3/apis/example.com/v1")
	if body := custom.Body.String(); !strings.Contains(body, "com.example.v1.ShirtList") || !strings.Contains(body, `"enum":["red","blue"]`) || strings.Contains(body, "Hat") {
		t.Errorf("description %.300s", body)
	}
	for _, media := range []string{"application/com.github.proto-openapi.spec.v3@v1.0+protobuf", contentV3Protobuf} {
		answer := ask(t, o, "/openapi/v3/apis/example.com/v1", "Accept", media)
		document := &openapiv3.Document{}
		if err := proto.Unmarshal(answer.Body.Bytes(), document); err != nil || len(document.GetPaths().GetPath()) == 0 {
			t.Errorf("%s: %v", media, err)
		}
	}
	for _, test := range []struct {
		name, path string
		header     []string
		status     int
	}{
		{"an old hash", "/openapi/v3/apis/example.com/v1?hash=A", nil, http.StatusMovedPermanently},
		{"an unchanged one", "/openapi/v3/apis/apps/v1", []string{"If-None-Match", ask(t, o, "/openapi/v3/apis/apps/v1").Header().Get("Etag")}, http.StatusNotModified},
		{"the list, unchanged", "/openapi/v3", []string{"If-None-Match", ask(t, o, "/openapi/v3").Header().Get("Etag")}, http.StatusNotModified},
		{"another media type", "/openapi/v3/apis/apps/v1", []string{"Accept", "text/html"}, http.StatusNotAcceptable},
		{"an unknown group", "/openapi/v3/apis/none/v1", nil, http.StatusNotFound},
		{"another path", "/openapi", nil, http.StatusNotFound},
	} {
		if answer := ask(t, o, test.path, test.header...); answer.Code != test.status {
			t.Errorf("%s: status %d, want %d", test.name, answer.Code, test.status)
		}
	}
	before := ask(t, o, "/openapi/v3").Header().Get("Etag")
	if after := ask(t, describing(t, strings.Replace(shirts, `"7"`, `"8"`, 1)), "/openapi/v3").Header().Get("Etag"); after == before {
		t.Error("a changed definition leaves the ETag")
	}
}

// The description of version 2 is what Kubernetes' own merge makes of the parts.
func TestOpenAPIV2(t *testing.T) {
	o := describing(t, shirts)
	kinds, err := o.custom(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := ask(t, o, "/openapi/v2", "Accept", "application/json")
	var got, builtin spec.Swagger
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v: %.200s", err, answer.Body)
	}
	if err := json.Unmarshal(ask(t, describing(t), "/openapi/v2").Body.Bytes(), &builtin); err != nil {
		t.Fatal(err)
	}
	own, err := builder.BuildOpenAPIV2(&kinds[0], "v1", builder.Options{V2: true, IncludeSelectableFields: true})
	if err != nil {
		t.Fatal(err)
	}
	for name := range own.Definitions {
		if _, ok := got.Definitions[name]; !ok {
			t.Errorf("definition %s is missing", name)
		}
	}
	for path := range own.Paths.Paths {
		if _, ok := got.Paths.Paths[path]; !ok {
			t.Errorf("path %s is missing", path)
		}
	}
	if len(got.Paths.Paths) != len(builtin.Paths.Paths)+len(own.Paths.Paths) || len(got.Definitions) != len(builtin.Definitions)+2 {
		t.Errorf("%d paths, %d definitions; built in are %d and %d", len(got.Paths.Paths), len(got.Definitions), len(builtin.Paths.Paths), len(builtin.Definitions))
	}
	want, err := openapiv2.ParseDocument(answer.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, media := range []string{"application/com.github.proto-openapi.spec.v2@v1.0+protobuf", contentV2Protobuf} {
		message := &openapiv2.Document{}
		if err := proto.Unmarshal(ask(t, o, "/openapi/v2", "Accept", media).Body.Bytes(), message); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(message.Paths.Path, func(a, b *openapiv2.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(message.Definitions.AdditionalProperties, func(a, b *openapiv2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(want.Paths.Path, func(a, b *openapiv2.NamedPathItem) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(want.Definitions.AdditionalProperties, func(a, b *openapiv2.NamedSchema) int { return strings.Compare(a.Name, b.Name) })
		if !proto.Equal(want, message) {
			t.Errorf("%s says something else than JSON", media)
		}
	}
	if answer := ask(t, o, "/openapi/v2", "If-None-Match", answer.Header().Get("Etag")); answer.Code != http.StatusNotModified {
		t.Errorf("an unchanged one: status %d", answer.Code)
	}
	if answer := ask(t, o, "/openapi/v2", "Accept", "text/html"); answer.Code != http.StatusNotAcceptable {
		t.Errorf("another media type: status %d", answer.Code)
	}
}

func BenchmarkOpenAPI(b *testing.B) {
	builtin, err := openDescriptions(descriptionsZip)
	if err != nil {
		b.Fatal(err)
	}
	o := &openAPI{builtin: builtin, custom: func(context.Context) (customKinds, error) { return nil, nil }}
	for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/apps/v1", "/openapi/v3/api/v1", "/openapi/v2"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.before(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
			}
		})
	}
}
