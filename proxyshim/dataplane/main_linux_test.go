package dataplane_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := inside(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
