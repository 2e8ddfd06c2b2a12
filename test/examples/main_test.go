package examples

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/cmd/linkerd-lite/app"
)

const (
	program = "linkerd-lite"
	// patience is how long anything may take on a busy machine.
	patience = 2 * time.Minute
)

// bin is a directory with the program in it.
var bin string

// TestMain makes this test binary the program too, under the program's name:
// it is linked once, and a cached result is dropped when the program changes.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	bin, err = os.MkdirTemp("", "linkerd-lite-examples-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	path := filepath.Join(bin, program)
	if os.Link(self, path) != nil { // another file system
		data, err := os.ReadFile(self)
		if err != nil {
			return 1, err
		}
		if err := os.WriteFile(path, data, 0o700); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// copyExample copies an example, so that a test may edit it.
func copyExample(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", name))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// user is someone at a shell with the program on the PATH and a home of their own.
type user struct {
	t   *testing.T
	dir string
	env []string
	// own are their directories.
	own []string
	// as is who they are, if not who runs the test.
	as *syscall.Credential
}

func newUser(t *testing.T, dir string) *user {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return strings.HasPrefix(name, "LINKERD_LITE_") || name == "KUBECONFIG" || name == "PATH" ||
			name == "HOME" || strings.HasPrefix(name, "XDG_")
	})
	home, state, runtime := t.TempDir(), t.TempDir(), t.TempDir()
	return &user{t: t, dir: dir, own: []string{dir, home, state, runtime}, env: append(env,
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HOME="+home, "XDG_STATE_HOME="+state, "XDG_RUNTIME_DIR="+runtime)}
}

func (u *user) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := name
	switch {
	case name == program:
		path = filepath.Join(bin, program)
	case strings.ContainsRune(name, filepath.Separator):
		path = filepath.Join(u.dir, name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = name
	cmd.Dir, cmd.Env = u.dir, u.env
	if u.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.as}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// run runs a command to its end and returns its standard output; another exit code than 0 fails the test.
func (u *user) run(name string, args ...string) string {
	u.t.Helper()
	out, err := u.try(name, args...)
	if err != nil {
		u.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// try is run for commands that may fail; the error has what they said.
func (u *user) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	out, err := u.command(ctx, name, args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

// process is a command that runs on; its lines can be waited for.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	lines []string
	grown chan struct{} // closed and replaced at each line
	next  int           // first line that no await has passed
}

// start starts a command. Its two outputs make one sequence of lines.
func (u *user) start(name string, args ...string) *process {
	u.t.Helper()
	p := &process{t: u.t, done: make(chan struct{}), grown: make(chan struct{})}
	p.cmd = u.command(context.WithoutCancel(u.t.Context()), name, args...)
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	if err := p.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		writer.Close()
	}()
	go func() {
		defer close(p.done)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			close(p.grown)
			p.grown = make(chan struct{})
			p.mu.Unlock()
		}
	}()
	u.t.Cleanup(func() { p.stop(syscall.SIGTERM) })
	return p
}

// stop sends a signal, waits for the end, and returns the exit code (-1: ended by the signal).
func (p *process) stop(sig syscall.Signal) int {
	p.t.Helper()
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("%s did not end after %s", p.cmd, sig)
		<-p.done
	}
	return p.cmd.ProcessState.ExitCode()
}

// await waits for the next line that matches and returns its submatches.
func (p *process) await(pattern string) []string {
	p.t.Helper()
	want := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		p.mu.Lock()
		for p.next < len(p.lines) {
			line := p.lines[p.next]
			p.next++
			if found := want.FindStringSubmatch(line); found != nil {
				p.mu.Unlock()
				return found
			}
		}
		grown := p.grown
		p.mu.Unlock()
		select {
		case <-grown:
		case <-p.done:
			p.mu.Lock()
			rest := p.next < len(p.lines)
			p.mu.Unlock()
			if !rest {
				p.t.Fatalf("%s ended without a line like %s:\n%s", p.cmd, pattern, p.output())
			}
		case <-timeout:
			p.t.Fatalf("no line like %s from %s:\n%s", pattern, p.cmd, p.output())
		}
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}
