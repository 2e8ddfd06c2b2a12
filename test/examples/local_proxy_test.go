package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// nobody is an ordinary user, whom the superuser becomes for a test.
const nobody = 65534

// ordinary makes u somebody without privileges.
func (u *user) ordinary() {
	u.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	u.as = &syscall.Credential{Uid: nobody, Gid: nobody}
	for _, path := range append(u.own, bin) {
		// Directories of tests are their owner's alone.
		for dir := path; strings.HasPrefix(dir, os.TempDir()+string(filepath.Separator)); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o711); err != nil {
				u.t.Fatal(err)
			}
		}
	}
	for _, path := range u.own {
		if err := filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}); err != nil {
			u.t.Fatal(err)
		}
	}
}

// sandboxed skips the test where u cannot make a sandbox.
func (u *user) sandboxed() {
	u.t.Helper()
	if out, err := u.try(program, "sandbox", "--", "true"); err != nil {
		if !strings.Contains(err.Error(), "does not let you make a user and network namespace") {
			u.t.Fatalf("sandbox: %v\n%s", err, out)
		}
		u.t.Skip(err)
	}
}

func TestLocalProxy(t *testing.T) {
	t.Parallel()
	build(t, "local-proxy")
	dir := copyExample(t, "local-proxy")
	u := newUser(t, dir)
	u.ordinary()
	u.sandboxed()
	args := []string{"sandbox", "--", program, "up", "mesh", "--ephemeral", "--", "./run.sh"}
	want := promised(t, dir, program+" "+strings.Join(args, " "))
	got, err := u.try(program, args...)
	if err != nil {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-README +printed):\n%s", diff)
	}
	for file, wants := range map[string][]string{
		"client.log": {"to=10.96.7.1:4140 endpoint=10.244.7.1:8080 identity=web.mesh.serviceaccount.identity.linkerd.cluster.local"},
		"web.log": {
			"msg=inbound client=10.244.7.1 identity=client.mesh.serviceaccount.identity.linkerd.cluster.local port=8080 server=all-unauthenticated",
			`msg="inbound request failed" client=10.244.7.1 identity=client.mesh.serviceaccount.identity.linkerd.cluster.local port=8080 server=web`,
			"msg=inbound client=10.244.7.1 identity=client.mesh.serviceaccount.identity.linkerd.cluster.local port=8080 server=web",
		},
	} {
		log, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(log), want) {
				t.Errorf("%s lacks %q:\n%s", file, want, log)
			}
		}
	}
}

// Inside, an ordinary user is root of a network of pods and services; outside
// files are still theirs.
func TestSandboxOfOrdinaryUser(t *testing.T) {
	t.Parallel()
	u := newUser(t, t.TempDir())
	u.ordinary()
	u.sandboxed()
	if got := u.run(program, "sandbox", "--", "sh", "-c", "id -u; touch file; exit 0"); got != "0\n" {
		t.Errorf("inside, the user is %q", got)
	}
	info, err := os.Stat(filepath.Join(u.dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	owner := uint32(os.Getuid())
	if u.as != nil {
		owner = u.as.Uid
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != owner {
		t.Errorf("a file made inside belongs to %d, want %d", got, owner)
	}
	if _, err := u.try(program, "sandbox", "--", "sh", "-c", "exit 7"); err == nil || !strings.HasPrefix(err.Error(), "exit status 7") {
		t.Errorf("exit code of COMMAND: %v", err)
	}
}
