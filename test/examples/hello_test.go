package examples

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const helloWeb = "web.hello.svc.cluster.local:80"

func TestHello(t *testing.T) {
	t.Parallel()
	dir := copyExample(t, "hello")
	u := newUser(t, filepath.Dir(dir))
	up := u.start(program, "up", "hello", "--ephemeral", "--random-ports", "--prune-empty")
	kubeconfig := up.await(`^kubeconfig +(.*)$`)[1]
	up.await(`^ready in `)
	u.env = append(u.env, "LINKERD_LITE_DATA_DIR="+filepath.Dir(kubeconfig))

	identity := `default\.hello\.serviceaccount\.identity\.linkerd\.cluster\.local$`
	add := `^add +` + helloWeb + ` +(10\.244\.\d+\.\d+:8080) +web-\S+ +` + identity
	remove := `^remove +` + helloWeb + ` +(10\.244\.\d+\.\d+:8080)$`
	stream := u.start(program, "diagnostics", "endpoints", "--watch", "-o", "wide", helloWeb)
	live := map[string]bool{}
	added := func() { t.Helper(); live[stream.await(add)[1]] = true }
	removed := func() {
		t.Helper()
		address := stream.await(remove)[1]
		if !live[address] {
			t.Errorf("%s is removed, but was not there:\n%s", address, stream.output())
		}
		delete(live, address)
	}
	added()
	added()

	u.run(program, "kubectl", "-n", "hello", "scale", "deploy/web", "--replicas=3")
	added()
	if len(live) != 3 {
		t.Errorf("endpoints after scaling: %v", live)
	}

	file := filepath.Join(dir, "web.yaml")
	manifest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(manifest), "replicas: 2", "replicas: 1", 1)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	removed()
	removed()
	if out := u.run(program, "check"); !strings.Contains(out, "manifests in sync: 3 objects of 1 file") {
		t.Errorf("check:\n%s", out)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	removed()
	up.await(`^manifests: 0 applied, 3 pruned`)
	if out, err := u.try(program, "diagnostics", "endpoints", helloWeb); err == nil || !strings.Contains(err.Error(), "Service web.hello not found") {
		t.Errorf("endpoints of a Service that is gone: error %v\n%s", err, out)
	}
	if code := up.stop(syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d after Ctrl-C:\n%s", code, up.output())
	}
}
