package kubelet

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain holds that nothing that Run started outlives it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
