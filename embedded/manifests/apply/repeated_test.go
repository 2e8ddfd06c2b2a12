package apply

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func asObject(t *testing.T, text string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	data := strings.Replace(text, "{", `{"apiVersion": "v1", "kind": "Some", `, 1)
	must(t, object.UnmarshalJSON([]byte(strings.Replace(data, `", }`, `"}`, 1))))
	return object.Object
}

// The lists that an error names are found in the manifest, and again in what the API
// server has made of it; entries of others stay.
func TestRepeated(t *testing.T) {
	rulebook.Covers(t, "B79")
	const prefix = "failed to create typed patch object (ns/a.b; apps/v1, Kind=Deployment): "
	for _, row := range []struct {
		name, message, manifest, stored, others string
		want, owned, warnings                   string
	}{
		{
			name:     "a key of several fields, of which one has a default",
			message:  prefix + `.spec.containers[name="a"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]`,
			manifest: `{"spec": {"containers": [{"name": "a", "ports": [{"name": "x", "containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"name": "y", "containerPort": 80, "protocol": "TCP"}]}]}}`,
			stored:   `{"spec": {"containers": [{"name": "sidecar"}, {"name": "a", "ports": [{"containerPort": 9, "protocol": "TCP"}, {"containerPort": 8, "protocol": "TCP"}, {"name": "x", "containerPort": 80, "protocol": "TCP"}]}]}}`,
			others:   `{"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {"k:{\"containerPort\":9,\"protocol\":\"TCP\"}": {"f:name": {}}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}}}}}}`,
			want:     `{"spec": {"containers": [{"name": "sidecar"}, {"name": "a", "ports": [{"name": "x", "containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"name": "y", "containerPort": 80, "protocol": "TCP"}, {"containerPort": 9, "protocol": "TCP"}]}]}}`,
			owned:    `{"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}, "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {}}}}}}`,
			warnings: `spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]`,
		},
		{
			name: "two lists, one of values, and a key three times",
			message: prefix + "errors:\n  .metadata.finalizers: duplicate entries for key [=\"x.io/a\"]\n" +
				"  .spec.env: duplicate entries for key [name=\"a]\\\"b\"]\n  .spec.env: duplicate entries for key [name=\"a]\\\"b\"]",
			manifest: `{"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/a"]}, "spec": {"env": [{"name": "a]\"b", "value": "1"}, {"name": "a]\"b", "value": "2"}, {"name": "a]\"b", "value": "3"}]}}`,
			stored:   `{"metadata": {"finalizers": ["theirs", "x.io/gone"]}, "spec": {}}`,
			others:   `{"f:metadata": {"f:finalizers": {"v:\"theirs\"": {}}}}`,
			want:     `{"metadata": {"finalizers": ["x.io/a", "x.io/b", "x.io/a", "theirs"]}, "spec": {"env": [{"name": "a]\"b", "value": "1"}, {"name": "a]\"b", "value": "2"}, {"name": "a]\"b", "value": "3"}]}}`,
			owned:    `{"f:metadata": {"f:finalizers": {"v:\"x.io/a\"": {}, "v:\"x.io/b\"": {}}}, "f:spec": {"f:env": {"k:{\"name\":\"a]\\\"b\"}": {}}}}`,
			warnings: `metadata.finalizers[="x.io/a"] spec.env[name="a]\"b"]`,
		},
		{
			name:     "in an entry that an index names, with numbers and truth",
			message:  prefix + `.spec.lists[1].names: duplicate entries for key [id=7,on=true,part=1.5]`,
			manifest: `{"spec": {"lists": [{}, {"names": [{"id": 7, "on": true, "part": 1.5}, {"id": 7, "on": false, "part": 1.5}, {"id": 7, "on": true, "part": 1.5}]}]}}`,
			stored:   `{"spec": {"lists": [{}, {"names": []}]}}`,
			others:   `{}`,
			want:     `{"spec": {"lists": [{}, {"names": [{"id": 7, "on": true, "part": 1.5}, {"id": 7, "on": false, "part": 1.5}, {"id": 7, "on": true, "part": 1.5}]}]}}`,
			owned:    `{"f:spec": {"f:lists": {"i:1": {"f:names": {"k:{\"id\":7,\"on\":false,\"part\":1.5}": {}, "k:{\"id\":7,\"on\":true,\"part\":1.5}": {}}}}}}`,
			warnings: `spec.lists[1].names[id=7,on=true,part=1.5]`,
		},
		{
			name:     "the place is gone",
			message:  prefix + `.spec.containers[name="a"].ports: duplicate entries for key [containerPort=80]`,
			manifest: `{"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]}}`,
			stored:   `{"spec": {"containers": [{"name": "b"}]}}`,
			others:   `{}`,
			want:     `{"spec": {"containers": [{"name": "b"}]}}`,
			owned:    `{"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {"k:{\"containerPort\":80}": {}}}}}}`,
			warnings: `spec.containers[name="a"].ports[containerPort=80]`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			lists, ok := repeatedIn(failedWith(http.StatusInternalServerError, row.message))
			if !ok {
				t.Fatal("not understood")
			}
			manifest, stored := asObject(t, row.manifest), asObject(t, row.stored)
			var others fieldpath.Set
			must(t, others.FromJSON(strings.NewReader(row.others)))
			for _, r := range lists {
				r.write(stored, manifest, &others)
			}
			before := []metav1.ManagedFieldsEntry{
				{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply},
				{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationUpdate},
				{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate},
			}
			owners, err := repeatedOwners(before, "v1", manifest, lists)
			must(t, err)
			if len(owners) != 3 || !isApplied(owners[0]) || owners[1].Manager != "other" || !isUpdated(owners[2]) {
				t.Errorf("owners are %v", owners)
			}
			for _, pair := range [][2]any{
				{asObject(t, row.want), stored},
				{asObject(t, row.manifest), manifest},
				{asObject(t, row.owned), asObject(t, string(owners[2].FieldsV1.GetRawBytes()))},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Error(diff)
				}
			}
			warnings := strings.Join(repeatedWarnings(lists), " ")
			if got := strings.ReplaceAll(warnings, " is there more than once: applied as it is written, but kubectl apply may drop all but one", ""); got != row.warnings {
				t.Errorf("warnings are %q", warnings)
			}
		})
	}
}

// Whatever else is wrong is told as it is.
func TestNotRepeated(t *testing.T) {
	rulebook.Covers(t, "B79")
	const prefix = "failed to create typed patch object (ns/a; /v1, Kind=Pod): "
	for _, err := range []error{
		nil,
		errors.New(prefix + `.spec.env: duplicate entries for key [name="a"]`),
		apierrors.NewNotFound(metav1.SchemeGroupVersion.WithResource("pods").GroupResource(), "a"),
		failedWith(http.StatusInternalServerError, `.spec.env: duplicate entries for key [name="a"]`),
		failedWith(http.StatusInternalServerError, prefix+`.spec.env: field not declared in schema`),
		failedWith(http.StatusInternalServerError, prefix+"errors:\n  .spec.env: duplicate entries for key [name=\"a\"]\n  .spec.x: field not declared in schema"),
		failedWith(http.StatusInternalServerError, prefix+`.spec.env: duplicate entries for key [name="a"`),
		failedWith(http.StatusInternalServerError, prefix+`.spec.env[name="a: duplicate entries for key [name="a"]`),
		failedWith(http.StatusInternalServerError, prefix+`.spec.env: duplicate entries for key [name]`),
		failedWith(http.StatusInternalServerError, prefix+`spec: duplicate entries for key [name=1]`),
		failedWith(http.StatusInternalServerError, prefix+`.spec: duplicate entries for key .name`),
	} {
		if lists, ok := repeatedIn(err); ok {
			t.Errorf("%v: %v", err, lists)
		}
	}
}
