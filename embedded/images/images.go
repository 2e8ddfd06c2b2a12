package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Config is what a Store needs.
type Config struct {
	// Dir keeps what is unpacked.
	Dir string
	// Sources are directories with OCI layouts, and archives of `docker save`, or
	// directories of these.
	Sources []string
	// Pull allows to ask registries.
	Pull bool
	Log  *slog.Logger
}

// Image is an image whose files are on disk. It is an immutable value.
type Image struct {
	// Root has the files. Nobody may write there.
	Root   string
	Digest string
	// Entrypoint, Cmd, Env and WorkingDir are what the image says of processes.
	Entrypoint, Cmd, Env []string
	WorkingDir           string
}

// Store finds images.
type Store struct {
	config Config
	// local has those of the sources, by their whole name.
	local map[string]func() (v1.Image, error)

	mu sync.Mutex
	// unpacking has a lock for each digest, so that others go on.
	unpacking map[string]*sync.Mutex
}

// refNames are annotations of manifests in a layout that name the image.
var refNames = []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"}

// Open reads which images the sources have.
func Open(config Config) (*Store, error) {
	s := &Store{config: config, local: map[string]func() (v1.Image, error){}, unpacking: map[string]*sync.Mutex{}}
	for _, source := range config.Sources {
		if err := s.addSource(source, true); err != nil {
			return nil, fmt.Errorf("images of %s: %w", source, err)
		}
	}
	return s, nil
}

func (s *Store) addSource(path string, deep bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.addArchive(path)
	}
	if _, err := os.Stat(filepath.Join(path, "oci-layout")); err == nil {
		return s.addLayout(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil || !deep {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasSuffix(entry.Name(), ".tar") {
			continue
		}
		if err := s.addSource(filepath.Join(path, entry.Name()), false); err != nil {
			return fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	return nil
}

func (s *Store) addArchive(path string) error {
	manifest, err := tarball.LoadManifest(func() (fsReader, error) { return os.Open(path) })
	if err != nil {
		return err
	}
	for _, entry := range manifest {
		for _, text := range entry.RepoTags {
			tag, err := name.NewTag(text)
			if err != nil {
				return err
			}
			s.local[tag.Name()] = func() (v1.Image, error) { return tarball.ImageFromPath(path, &tag) }
		}
	}
	return nil
}

func (s *Store) addLayout(path string) error {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, descriptor := range manifest.Manifests {
		for _, annotation := range refNames {
			ref, err := name.ParseReference(descriptor.Annotations[annotation])
			if err != nil {
				continue // without a name, or one that is no image's
			}
			s.local[ref.Name()] = func() (v1.Image, error) {
				if descriptor.MediaType.IsIndex() {
					nested, err := index.ImageIndex(descriptor.Digest)
					if err != nil {
						return nil, err
					}
					return ofThisMachine(nested)
				}
				return index.Image(descriptor.Digest)
			}
			break
		}
	}
	return nil
}

// platform is what runs here.
func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

func ofThisMachine(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, descriptor := range manifest.Manifests {
		if descriptor.Platform != nil && descriptor.Platform.Satisfies(platform()) {
			return index.Image(descriptor.Digest)
		}
	}
	return nil, fmt.Errorf("it has no image for %s", platform())
}

// Has reports whether Get may find an image of this name.
func (s *Store) Has(ref string) bool {
	parsed, err := name.ParseReference(ref)
	return err == nil && (s.config.Pull || s.Local(parsed.Name()))
}

// Local reports whether Get finds the image without a registry.
func (s *Store) Local(ref string) bool {
	parsed, err := name.ParseReference(ref)
	return err == nil && s.local[parsed.Name()] != nil
}

// Get finds an image and unpacks it.
func (s *Store) Get(ctx context.Context, ref string) (*Image, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	var image v1.Image
	switch open := s.local[parsed.Name()]; {
	case open != nil:
		image, err = open()
	case s.config.Pull:
		image, err = remote.Image(parsed, remote.WithContext(ctx), remote.WithPlatform(platform()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	default:
		err = errors.New("it is in no source of --images, and registries are asked with --pull only")
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	found, err := s.unpacked(image)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	return found, nil
}

func (s *Store) unpacked(image v1.Image) (*Image, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	if !(v1.Platform{OS: file.OS, Architecture: file.Architecture}).Satisfies(platform()) {
		return nil, fmt.Errorf("it is for %s/%s, this machine is %s", file.OS, file.Architecture, platform())
	}
	found := &Image{
		Root: filepath.Join(s.config.Dir, digest.Algorithm+"-"+digest.Hex), Digest: digest.String(),
		Entrypoint: file.Config.Entrypoint, Cmd: file.Config.Cmd, Env: file.Config.Env, WorkingDir: file.Config.WorkingDir,
	}
	s.mu.Lock()
	lock := s.unpacking[found.Digest]
	if lock == nil {
		lock = &sync.Mutex{}
		s.unpacking[found.Digest] = lock
	}
	s.mu.Unlock()
	lock.Lock()
	defer lock.Unlock()
	if _, err := os.Stat(found.Root); err == nil {
		return found, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return nil, err
	}
	// A directory of this name is whole.
	temporary, err := os.MkdirTemp(s.config.Dir, ".unpacking-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	if err := unpack(image, temporary); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	s.config.Log.Debug("image unpacked", "digest", found.Digest)
	return found, os.Rename(temporary, found.Root)
}
