package source

import (
	"fmt"
	"strings"
	"testing"
)

func cm(name, v string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: ns\ndata:\n  v: %q\n", name, v)
}

func docs(parts ...string) string { return strings.Join(parts, "---\n") }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
