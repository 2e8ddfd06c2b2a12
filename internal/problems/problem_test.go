package problems

import (
	"encoding/json"
	"testing"
)

// A line begins with the place, says as much as is known, and so does the JSON.
func TestProblemAsText(t *testing.T) {
	server := Object{Group: "policy.linkerd.io", Kind: "Server", Namespace: "shop", Name: "web"}
	for _, tc := range []struct {
		problem    Problem
		text, json string
	}{
		{Problem{Message: "no"}, "no", `{"message":"no"}`},
		{Problem{File: "a.yaml", Message: "no"}, "a.yaml: no", `{"file":"a.yaml","message":"no"}`},
		{Problem{File: "a.yaml", Line: 3, Object: server, Message: "no"}, "a.yaml:3: Server shop/web: no",
			`{"object":{"group":"policy.linkerd.io","kind":"Server","namespace":"shop","name":"web"},"file":"a.yaml","line":3,"message":"no"}`},
		{Problem{Object: server, Field: "spec.port", Message: "no", Instead: "80", Severity: Error}, "Server shop/web: spec.port: no; 80",
			`{"object":{"group":"policy.linkerd.io","kind":"Server","namespace":"shop","name":"web"},"field":"spec.port","message":"no","instead":"80","severity":"error"}`},
	} {
		data, err := json.Marshal(tc.problem)
		if err != nil || string(data) != tc.json || tc.problem.String() != tc.text {
			t.Errorf("%q, %s, %v; want %q, %s", tc.problem, data, err, tc.text, tc.json)
		}
	}
}
