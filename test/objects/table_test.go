package objects

import (
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/state"
)

// Tests can store an object of every kind that is read.
func TestEveryKindIsKnown(t *testing.T) {
	for _, info := range append(state.LocalKinds(true), state.LocalKinds(false)...) {
		kind := info.GVK.Kind
		if info == &state.HTTPRoutes.KindInfo {
			kind = "GatewayHTTPRoute"
		}
		table, err := tableOf(kind)
		if err != nil {
			t.Errorf("%s: %v; add it to tableOf", info.Name, err)
			continue
		}
		if _, skipped := table.(unread); skipped {
			t.Errorf("%s is read, and the tests do not store it", info.Name)
		}
	}
}
