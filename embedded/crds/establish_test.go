package crds

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// A process that was killed between accepting the names of a definition and serving it.
func TestEstablish(t *testing.T) {
	condition := func(kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus, reason string) apiextensionsv1.CustomResourceDefinitionCondition {
		return apiextensionsv1.CustomResourceDefinitionCondition{Type: kind, Status: status, Reason: reason}
	}
	accepted := condition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue, "NoConflicts")
	for _, test := range []struct {
		name       string
		conditions []apiextensionsv1.CustomResourceDefinitionCondition
		want       bool
		writes     int
	}{
		{"killed in between", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "Installing")}, true, 1},
		{"killed in between, no condition", []apiextensionsv1.CustomResourceDefinitionCondition{accepted}, true, 1},
		{"established", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, condition(apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "InitialNamesAccepted")}, true, 0},
		{"new", nil, false, 0},
		{"names taken", []apiextensionsv1.CustomResourceDefinitionCondition{condition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse, "Conflict")}, false, 0},
		{"refused", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "InvalidCABundle")}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com"}}
			crd.Status.Conditions = test.conditions
			client := fake.NewClientset(crd)
			keeper := newKeeper(client, nil, nil, nil, slog.New(slog.DiscardHandler))
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			if err := store.Add(crd); err != nil {
				t.Fatal(err)
			}
			if err := keeper.establish(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			got, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), crd.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if established := apihelpers.IsCRDConditionTrue(got, apiextensionsv1.Established); established != test.want {
				t.Errorf("established: %v", established)
			}
			writes := 0
			for _, action := range client.Actions() {
				if action.GetVerb() == "update" {
					writes++
				}
			}
			if diff := cmp.Diff(test.writes, writes); diff != "" {
				t.Error(diff)
			}
		})
	}
}
