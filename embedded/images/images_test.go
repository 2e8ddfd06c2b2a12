package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/linkerd-lite/linkerd-lite/embedded/images"
)

// layer makes one of these entries; the content of a file is its own name.
func layer(t *testing.T, entries ...tar.Header) v1.Layer {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, header := range entries {
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(header.Name))
		}
		if header.Mode == 0 {
			header.Mode = 0o755
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, header.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func image(t *testing.T, architecture string, layers ...v1.Layer) v1.Image {
	t.Helper()
	made, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture
	file.Config = v1.Config{Entrypoint: []string{"/bin/web"}, Cmd: []string{"--listen"}, Env: []string{"A=b"}, WorkingDir: "/srv"}
	if made, err = mutate.ConfigFile(made, file); err != nil {
		t.Fatal(err)
	}
	return made
}

// sources puts an image everywhere, and returns a configuration for each place.
func sources(t *testing.T, ref string, image v1.Image) map[string]images.Config {
	t.Helper()
	dir := t.TempDir()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(dir, "web.tar"), tag, image); err != nil {
		t.Fatal(err)
	}
	where, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := where.AppendImage(image, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref})); err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	return map[string]images.Config{
		"docker save": {Sources: []string{filepath.Join(dir, "web.tar")}, Log: log},
		"layout":      {Sources: []string{filepath.Join(dir, "layout")}, Log: log},
		"directory":   {Sources: []string{dir}, Log: log},
		"registry":    {Pull: true, Log: log},
	}
}

func TestGet(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/shop/web:v1"
	made := image(t, runtime.GOARCH,
		layer(t, tar.Header{Name: "bin/", Typeflag: tar.TypeDir}, tar.Header{Name: "bin/web", Typeflag: tar.TypeReg}, tar.Header{Name: "old", Typeflag: tar.TypeReg}, tar.Header{Name: "data/a", Typeflag: tar.TypeReg}),
		layer(t, tar.Header{Name: ".wh.old", Typeflag: tar.TypeReg}, tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "/bin/web"},
			tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "bin/web"}, tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
			tar.Header{Name: "suid", Typeflag: tar.TypeReg, Mode: 0o4755}, tar.Header{Name: "closed/", Typeflag: tar.TypeDir, Mode: 0o500}, tar.Header{Name: "closed/in", Typeflag: tar.TypeReg, Mode: 0o200}),
	)
	for name, config := range sources(t, ref, made) {
		t.Run(name, func(t *testing.T) {
			config.Dir = filepath.Join(t.TempDir(), "images")
			store, err := images.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			if !store.Has(ref) || store.Has("!") {
				t.Error("has the wrong images")
			}
			got, err := store.Get(context.Background(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if got.Entrypoint[0] != "/bin/web" || got.Cmd[0] != "--listen" || got.Env[0] != "A=b" || got.WorkingDir != "/srv" {
				t.Errorf("%+v", got)
			}
			for path, want := range map[string]string{"bin/web": "bin/web", "data/a": "data/a", "hard": "bin/web", "closed/in": "closed/in", "old": "", "null": ""} {
				data, err := os.ReadFile(filepath.Join(got.Root, path))
				if (err == nil) != (want != "") || string(data) != want {
					t.Errorf("%s: %q, %v", path, data, err)
				}
			}
			if to, _ := os.Readlink(filepath.Join(got.Root, "bin/sh")); to != "/bin/web" {
				t.Errorf("link to %q", to)
			}
			if info, _ := os.Stat(filepath.Join(got.Root, "suid")); info.Mode() != 0o755 {
				t.Errorf("mode %v", info.Mode())
			}
			again, err := store.Get(context.Background(), ref)
			if err != nil || again.Root != got.Root {
				t.Errorf("%+v, %v", again, err)
			}
			entries, _ := os.ReadDir(config.Dir)
			if len(entries) != 1 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	outside := t.TempDir()
	for _, test := range []struct {
		name  string
		image v1.Image
		want  string
	}{
		{"another architecture", image(t, "s390x"), "it is for linux/s390x"},
		{"a path through a link out of the image", image(t, runtime.GOARCH, layer(t, tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: outside}, tar.Header{Name: "out/x", Typeflag: tar.TypeReg})), ""},
		{"a path with ..", image(t, runtime.GOARCH, layer(t, tar.Header{Name: "../../x", Typeflag: tar.TypeReg})), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := sources(t, host+"/x:v1", test.image)["docker save"]
			config.Dir = filepath.Join(t.TempDir(), "images")
			store, err := images.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Get(context.Background(), host+"/x:v1")
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if entries, _ := os.ReadDir(outside); len(entries) > 0 {
				t.Errorf("files came to be outside: %v", entries)
			}
			if _, err := os.Stat(filepath.Join(config.Dir, "..", "x")); err == nil {
				t.Error("a file came to be outside")
			}
		})
	}
	if _, err := images.Open(images.Config{Sources: []string{outside + "/none"}}); err == nil {
		t.Error("a source that is not there")
	}
}
