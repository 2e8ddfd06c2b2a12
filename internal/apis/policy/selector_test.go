package policy

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestLabelSelector(t *testing.T) {
	rulebook.Covers(t, "P134")
	labels := map[string]string{"app": "web", "tier": "front"}
	tests := []struct {
		selector string
		want     bool
	}{
		{`{}`, true},
		{`{matchLabels: {app: web}}`, true},
		{`{matchLabels: {app: web, tier: back}}`, false},
		{`{matchLabels: {gone: ""}}`, false},
		{`{matchExpressions: [{key: app, operator: In, values: [api, web]}]}`, true},
		{`{matchExpressions: [{key: app, operator: In, values: []}]}`, false},
		{`{matchExpressions: [{key: app, operator: In}]}`, false},
		{`{matchExpressions: [{key: gone, operator: In, values: [""]}]}`, false},
		{`{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}`, false},
		{`{matchExpressions: [{key: gone, operator: NotIn, values: [web]}]}`, true},
		{`{matchExpressions: [{key: gone, operator: NotIn}]}`, false},
		{`{matchExpressions: [{key: app, operator: Exists}]}`, true},
		{`{matchExpressions: [{key: app, operator: Exists, values: []}]}`, false},
		{`{matchExpressions: [{key: gone, operator: DoesNotExist}]}`, true},
		{`{matchExpressions: [{key: gone, operator: DoesNotExist, values: [a]}]}`, false},
		{`{matchLabels: {app: web}, matchExpressions: [{key: tier, operator: In, values: [back]}]}`, false},
	}
	for _, test := range tests {
		t.Run(test.selector, func(t *testing.T) {
			var selector LabelSelector
			if err := yaml.UnmarshalStrict([]byte(test.selector), &selector); err != nil {
				t.Fatal(err)
			}
			if got := selector.Matches(labels); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
