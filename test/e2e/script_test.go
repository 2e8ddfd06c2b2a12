package e2e

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/linkerd-lite/linkerd-lite/cmd/linkerd-lite/app"
)

// The test binary is the program too, so that scripts need no other build.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"linkerd-lite": func() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			return nil
		},
	})
}
