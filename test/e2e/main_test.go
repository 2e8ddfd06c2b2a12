package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/linkerd-lite/linkerd-lite/cmd/linkerd-lite/app"
	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// TestMain makes this test binary the program too: it is linked once.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"linkerd-lite": func() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"httpd":        httpd,
		"httpget":      httpget,
		"httpload":     httpload,
	})
}

func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("each script starts clusters")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"until":  until,
			"listen": listen,
			"signal": signalInstance,
			"took":   took,
		},
	})
}

// setup gives each script lib.sh, a home, a state directory and a temporary
// directory of its own. Paths of sockets are short: the work directory's may be too long.
func setup(env *testscript.Env) error {
	for name, dir := range map[string]string{"HOME": "home", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"} {
		path := filepath.Join(env.WorkDir, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		env.Setenv(name, path)
	}
	env.Values[clockKey{}] = new(time.Time)
	lib, err := os.ReadFile(filepath.Join("testdata", "lib.sh"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(env.WorkDir, "lib.sh"), lib, 0o600)
}

// condition knows [unshare] (namespaces of our own can be made), [ipv6] and [root].
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Getuid() == 0, nil
	case "ipv6":
		_, err := os.Stat("/proc/sys/net/ipv6/conf")
		return err == nil, nil
	case "unshare":
		return exec.Command("unshare", "-Urnm", "true").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// until COMMAND [ARG...] runs COMMAND until it succeeds, or with ! until it fails.
func until(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(eventually.Patience)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if (err == nil) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %v: %s", eventually.Patience, strings.Join(args, " "))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// listen NAME occupies a free port on loopback and sets $NAME to its address.
func listen(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// signal NAME PIDFILE sends a signal to the process in a file (the lock of a data directory).
func signalInstance(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}

// took LIMIT fails when more time than eventually.Allowed has passed since the last
// "took"; "took -" only starts the clock.
func took(ts *testscript.TestScript, _ bool, args []string) {
	clock := ts.Value(clockKey{}).(*time.Time)
	began, now := *clock, time.Now()
	*clock = now
	if args[0] == "-" {
		return
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	if now.Sub(began) > eventually.Allowed(limit) {
		ts.Fatalf("took %v, more than %v", now.Sub(began), limit)
	}
}

type clockKey struct{}
