package settings

import (
	"strings"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

func TestCheckAnnotations(t *testing.T) {
	for _, test := range []struct {
		name        string
		annotations map[string]string
		check       func(map[string]string) error
		want        string
	}{
		{"none", nil, CheckHTTP, ""},
		{"P61 good", map[string]string{"retry.linkerd.io/http": "5xx", "timeout.linkerd.io/request": "1s"}, CheckHTTP, ""},
		{"P62 bad retry", map[string]string{"retry.linkerd.io/http": "banana"}, CheckHTTP, "retry.linkerd.io/http"},
		{"P62 bad gRPC retry", map[string]string{"retry.linkerd.io/grpc": "banana"}, CheckGRPC, "retry.linkerd.io/grpc"},
		{"P63 bad timeout", map[string]string{"timeout.linkerd.io/request": "soon"}, CheckGRPC, "timeout.linkerd.io/request"},
	} {
		rulebook.Run(t, test.name, func(t *testing.T) {
			err := test.check(test.annotations)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one about %q", err, test.want)
			}
		})
	}
}
