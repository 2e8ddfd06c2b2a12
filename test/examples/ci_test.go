package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCI(t *testing.T) {
	t.Parallel()
	u := newUser(t, copyExample(t, "ci"))
	got := u.run(program, "up", "manifests", "--ephemeral", "--random-ports", "--", "./check.sh")
	want := `cart has 3 endpoints
GET /cart/{id} is retryable
a broken ServiceProfile is refused
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestCIFails(t *testing.T) {
	t.Parallel()
	dir := copyExample(t, "ci")
	u := newUser(t, dir)
	file := filepath.Join(dir, "manifests", "shop.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(manifest), "replicas: 3", "replicas: 2", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := u.try(program, "up", "manifests", "--ephemeral", "--random-ports", "--", "./check.sh")
	if err == nil || !strings.HasPrefix(err.Error(), "exit status 1:") || out != "cart has 2 endpoints\n" {
		t.Errorf("with two replicas: error %v, output %q", err, out)
	}
}
