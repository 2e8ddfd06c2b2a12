package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

const scaled = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {linkerd.io/inject: enabled, lite.linkerd.io/run.web: httpd 8080}}
    spec:
      terminationGracePeriodSeconds: 30
      containers:
      - name: web
        image: web
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /ready, port: http}}
        # As in a cluster, proxies learn a little later than the pod that it is to end.
        lifecycle: {preStop: {sleep: {seconds: 3}}}
`

// Pods that come and go under load lose no request, if they end as one has them end in a cluster.
func TestScaleUnderLoad(t *testing.T) {
	needNamespaces(t)
	dir, dataDir := directory(t, scaled), filepath.Join(t.TempDir(), "d")
	p := launch(t, dataDir, dir, "--run", "--proxy", "builtin", "--unsafe-no-fsync")
	p.wait(t)
	client := p.client(t)
	scale := func(n int32) {
		t.Helper()
		patch := []byte(`{"spec":{"replicas":` + string(rune('0'+n)) + `}}`)
		if _, err := client.AppsV1().Deployments("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.Holds(t, "pods are ready", func() bool {
			web, err := client.AppsV1().Deployments("default").Get(t.Context(), "web", metav1.GetOptions{})
			pods, podsErr := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
			return err == nil && podsErr == nil && web.Status.ReadyReplicas == n && len(pods.Items) == int(n)
		}, p.said)
	}
	scale(3)
	load := exec.Command("linkerd-lite", "run", "--data-dir", dataDir, "--", "httpload", "http://web/", "200")
	var said output
	load.Stdout, load.Stderr = &said, &said
	end, err := load.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "load", func() bool { return strings.Contains(said.String(), "asking") }, said.String)
	scale(1)
	scale(3)
	end.Close()
	if err := load.Wait(); err != nil {
		t.Error(err)
	}
	t.Log(said.String())
	if !strings.Contains(said.String(), " 0 failed") {
		t.Errorf("requests have failed:\n%s", said.String())
	}
	p.stop(t, syscall.SIGTERM)
}
