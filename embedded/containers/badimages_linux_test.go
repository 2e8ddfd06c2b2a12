package containers_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/containers"
	"github.com/linkerd-lite/linkerd-lite/embedded/images"
	"github.com/linkerd-lite/linkerd-lite/embedded/kubelet"
)

// image is one with the given files of a layer, its architecture and its entrypoint.
func image(t *testing.T, architecture string, entrypoint []string, entries ...*tar.Header) v1.Image {
	t.Helper()
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	for _, header := range entries {
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	result, err := mutate.AppendLayers(empty.Image, made)
	if err != nil {
		t.Fatal(err)
	}
	config, err := result.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Entrypoint = "linux", architecture, entrypoint
	if result, err = mutate.ConfigFile(result, config); err != nil {
		t.Fatal(err)
	}
	return result
}

// store has these images under their names.
func store(t *testing.T, all map[string]v1.Image) *images.Store {
	t.Helper()
	var archives []string
	for ref, image := range all {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, filepath.Join(t.TempDir(), "image.tar"))
		if err := tarball.WriteToFile(archives[len(archives)-1], tag, image); err != nil {
			t.Fatal(err)
		}
	}
	s, err := images.Open(images.Config{Dir: filepath.Join(t.TempDir(), "images"), Sources: archives, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Images that cannot run say so in the status of the container and in an event.
func TestBadImages(t *testing.T) {
	foreign := "arm64"
	if runtime.GOARCH == foreign {
		foreign = "amd64"
	}
	b := newBenchWith(t, containers.Config{Programs: containers.Programs{Images: store(t, map[string]v1.Image{
		"image.test/foreign:1":    image(t, foreign, []string{"/x"}),
		"image.test/unsaid:1":     image(t, runtime.GOARCH, nil),
		"image.test/nothing:1":    image(t, runtime.GOARCH, []string{"/x"}),
		"image.test/out:1":        image(t, runtime.GOARCH, []string{"/x"}, &tar.Header{Name: "../../out", Typeflag: tar.TypeReg, Mode: 0o644}),
		"image.test/device:1":     image(t, runtime.GOARCH, []string{"/sda"}, &tar.Header{Name: "sda", Typeflag: tar.TypeBlock, Mode: 0o777, Devmajor: 8}),
		"image.test/link:1":       image(t, runtime.GOARCH, []string{"/x"}, &tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/"}, &tar.Header{Name: "l/tmp/through", Typeflag: tar.TypeReg, Mode: 0o644}),
		"image.test/read-only:1":  image(t, runtime.GOARCH, []string{"/x"}, &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o555}),
		"image.test/directory:1":  image(t, runtime.GOARCH, []string{"/d"}, &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}),
		"image.test/text-only:1":  image(t, runtime.GOARCH, []string{"/t"}, &tar.Header{Name: "t", Typeflag: tar.TypeReg, Mode: 0o755}),
		"image.test/unrunnable:1": image(t, runtime.GOARCH, []string{"/t"}, &tar.Header{Name: "t", Typeflag: tar.TypeReg, Mode: 0o644}),
	})}})
	for _, test := range []struct{ image, state, message string }{
		{"foreign", "ErrImagePull", "it is for linux/" + foreign},
		{"unsaid", "StartError", "no program to run"},
		{"nothing", "StartError", "/x: no such file"},
		{"out", "StartError", "/x: no such file"},
		{"device", "StartError", "/sda: no such file"},
		{"link", "StartError", "/x: no such file"},
		{"read-only", "StartError", "/x: no such file"},
		{"directory", "StartError", "permission denied"},
		{"text-only", "StartError", "exec format error"},
		{"unrunnable", "StartError", "permission denied"},
	} {
		t.Run(test.image, func(t *testing.T) {
			b.t = t
			uid := b.add(fmt.Sprintf(`{restartPolicy: Never, containers: [{name: c, image: "image.test/%s:1"}, {name: beside, image: "echo x"}]}`, test.image))
			b.await(uid, "container beside", func(s kubelet.RunStatus) bool { return s.Containers[1].State.Terminated != nil })
			if test.state == "ErrImagePull" {
				b.event("Warning Failed Failed to pull image", test.message)
				b.event("Warning Failed Error: ErrImagePull")
				b.event("Normal BackOff Back-off pulling image")
				b.await(uid, "ImagePullBackOff", waits("ImagePullBackOff", "ErrImagePull: ", test.message))
				b.gone(uid, 30*time.Second) // in its back-off
				return
			}
			s := b.await(uid, "failed", phase(corev1.PodFailed))
			ended := s.Containers[0].State.Terminated
			if ended == nil || ended.Reason != test.state || ended.ExitCode != 128 || !strings.Contains(ended.Message, test.message) {
				t.Errorf("%+v", s.Containers[0].State)
			}
			b.event("Normal Pulled Container image")
			b.event("Warning Failed Error: ", test.message)
			b.Forget(uid)
		})
	}
	for _, path := range []string{"/tmp/through", "/out"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s came to be", path)
		}
	}
}
