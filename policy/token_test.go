package policy

import "testing"

// policy-inbound 2.1. An empty want is an error.
func TestParseWorkload(t *testing.T) {
	for _, row := range []struct {
		token string
		want  Workload
	}{
		{"ns:pod", Workload{Namespace: "ns", Name: "pod"}},
		{"ns:a:b", Workload{Namespace: "ns", Name: "a:b"}},
		{`{"ns":"ns", "pod":"p"}` + "\n", Workload{Namespace: "ns", Name: "p"}},
		{`{"x":[1,{}],"external_workload":"vm","ns":"ns"}`, Workload{External: true, Namespace: "ns", Name: "vm"}},
		{`{"external_workload":"vm","pod":"p","ns":"ns"}`, Workload{External: true, Namespace: "ns", Name: "vm"}},
		{` {"ns":"ns","pod":"p"}`, Workload{Namespace: ` {"ns"`, Name: `"ns","pod":"p"}`}},
		{"", Workload{}},
		{"ns", Workload{}},
		{":pod", Workload{}},
		{"ns:", Workload{}},
		{`{"ns":"ns"}`, Workload{}},
		{`{"pod":"p"}`, Workload{}},
		{`{"ns":1,"pod":"p"}`, Workload{}},
		{`{"ns":"ns","pod":"p"} x`, Workload{}},
		{`{"ns":"ns","pod":"p"`, Workload{}},
		{"{", Workload{}},
		{"{bad", Workload{}},
		{`{"ns"`, Workload{}},
		{`{"ns":"ns","pod":`, Workload{}},
		{`{"ns":"ns","pod":{}}`, Workload{}},
		{`{"ns":"ns","pod":"p","x":`, Workload{}},
		{`{"ns":"ns","pod":"p","x":tru}`, Workload{}},
		{`{"ns":"ns" "pod":"p"}`, Workload{}},
	} {
		got, err := ParseWorkload(row.token)
		if got != row.want && err == nil || (err != nil) != (row.want == Workload{}) {
			t.Errorf("%q: %+v, %v; want %+v", row.token, got, err, row.want)
		}
	}
}

func FuzzParseWorkload(f *testing.F) {
	for _, token := range []string{"ns:pod", `{"ns":"ns","pod":"p"}` + "\n", `{"ns":"","external_workload":"vm"}`, "{", ":"} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		w, err := ParseWorkload(token)
		if err == nil && token[0] != '{' && (w.External || w.Namespace+":"+w.Name != token) {
			t.Errorf("%q: %+v", token, w)
		}
	})
}
