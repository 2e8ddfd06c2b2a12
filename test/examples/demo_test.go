package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemo runs the commands of the demo's README as an ordinary user, with a
// proxy of each kind, and waits for what it promises after each.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, proxy := range map[string]string{"builtin": "builtin", "linkerd2-proxy": os.Getenv("LINKERD_LITE_PROXY")} {
		t.Run(name, func(t *testing.T) {
			if proxy == "" {
				t.Skip("$LINKERD_LITE_PROXY names no linkerd2-proxy")
			}
			runDemo(t, proxy)
		})
	}
}

func runDemo(t *testing.T, proxy string) {
	build(t, "demo")
	dir := copyExample(t, "demo")
	if err := os.Link(filepath.Join(bin, "demo"), filepath.Join(dir, "demo")); err != nil {
		t.Fatal(err)
	}
	u := newUser(t, dir)
	u.ordinary()
	u.sandboxed()
	var up *process
	var answers *answers
	for _, b := range blocks(t, filepath.Join(dir, "README.md")) {
		switch {
		case b.kind == "text":
			answers.await(b.lines)
			continue
		case b.lines[len(b.lines)-1] == "$ "+program+" up manifests --run":
			// What comes before builds the program.
			up = u.start(program, "up", "manifests", "--run", "--proxy", proxy, "--ephemeral", "--random-ports")
			u.env = append(u.env, "LINKERD_LITE_DATA_DIR="+filepath.Dir(up.await(`^kubeconfig +(.*)$`)[1]))
			up.await(`^ready in `)
			continue
		}
		script := strings.ReplaceAll("\n"+strings.Join(b.lines, "\n"), "\n$ ", "\n")
		if logs, ok := strings.CutPrefix(script, "\n"+program+" "); ok && strings.Contains(script, " logs -f ") {
			answers = newAnswers(u.start(program, strings.Fields(logs)...), up)
			continue
		}
		answers.forget()
		u.run("sh", "-ec", script)
		if strings.Contains(script, "steps/split.yaml") {
			answers.share("emoji", "v2", 0.25)
		}
	}
	if code := up.stop(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", code, up.output())
	}
	if left := running(t, filepath.Join(dir, "demo")); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// running are the processes of a program.
func running(t *testing.T, program string) (pids []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == program {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// block is what stands between two fences of a README.
type block struct {
	kind  string
	lines []string
}

func blocks(t *testing.T, file string) (all []block) {
	t.Helper()
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(readme)) {
		line = strings.TrimSuffix(line, "\n")
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			all = append(all, block{kind: kind})
			inside = true
		case fence:
			inside = false
		case inside:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// answers are the lines that the demo's client writes.
type answers struct {
	*process
	// up is shown when they are not as they should be.
	up *process
}

func newAnswers(p, up *process) *answers { return &answers{p, up} }

// forget leaves out what has been written up to now.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = len(a.lines)
}

// steady is how many lines in a row have to be as promised.
const steady = 2

// await waits until the services answer as promised, in any numbers.
func (a *answers) await(promised []string) {
	a.t.Helper()
	want, seen := map[string]*regexp.Regexp{}, map[string]int{}
	numbers := regexp.MustCompile(`=\d+`)
	for _, line := range promised {
		want[strings.Fields(line)[0]] = regexp.MustCompile("^" + numbers.ReplaceAllString(line, `=\d+`) + "$")
	}
	met := 0
	for deadline := time.Now().Add(patience); met < len(want); {
		if time.Now().After(deadline) {
			a.t.Fatalf("the client does not see\n%s\nbut\n%s\n\n%s", strings.Join(promised, "\n"), a.last(25), a.up.output())
		}
		line := a.process.await(`^(\S+) .*$`)
		pattern, ok := want[line[1]]
		switch {
		case !ok || seen[line[1]] == steady:
		case !pattern.MatchString(line[0]):
			seen[line[1]] = 0
		default:
			if seen[line[1]]++; seen[line[1]] == steady {
				met++
			}
		}
	}
}

// share waits until a version has its share of a service's answers, roughly.
func (a *answers) share(service, version string, want float64) {
	a.t.Helper()
	const enough = 200
	count := func(line, pattern string) (n int) {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
			n, _ = strconv.Atoi(found[1])
		}
		return n
	}
	a.await([]string{service + " +200=1 v1=1 " + version + "=1"})
	all, its := 0, 0
	for all < enough {
		line := a.process.await("^" + service + " .*$")[0]
		all += count(line, ` 200=(\d+)`)
		its += count(line, " "+version+`=(\d+)`)
	}
	if got := float64(its) / float64(all); got < want-0.15 || got > want+0.15 {
		a.t.Errorf("%s has %d of %d answers of %s", version, its, all, service)
	}
}

// last are the newest lines.
func (a *answers) last(n int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.lines[max(0, len(a.lines)-n):], "\n")
}
