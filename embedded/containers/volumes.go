package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// volumes are the files of a pod, below a directory of its own.
type volumes struct {
	sources
	dir string
	// claims has a directory for each PersistentVolumeClaim, which outlives pods.
	claims string
	pod    *corev1.Pod
	now    func() time.Time
	mu     sync.Mutex // held while files are written
	// tokens are those that were made, by audience and path; proxyToken makes that of the proxy anew.
	tokens     map[string]madeToken
	proxyToken func(context.Context) error
	// allowed are the directories of this machine that pods may see.
	allowed []string
}

// madeToken is a token that is used until renew.
type madeToken struct {
	text  string
	renew time.Time
}

// path is where a volume's files are.
func (v *volumes) path(volume corev1.Volume) string {
	switch {
	case volume.HostPath != nil:
		return volume.HostPath.Path
	case volume.PersistentVolumeClaim != nil:
		return filepath.Join(v.claims, v.namespace, volume.PersistentVolumeClaim.ClaimName)
	}
	return filepath.Join(v.dir, "volumes", volume.Name)
}

// refresh writes what has changed.
func (v *volumes) refresh(ctx context.Context) error {
	if err := v.write(ctx); err != nil || v.proxyToken == nil {
		return err
	}
	return v.proxyToken(ctx)
}

// write makes the volumes. An error says what is missing; it may come to be.
func (v *volumes) write(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, volume := range v.pod.Spec.Volumes {
		if err := v.writeOne(ctx, volume); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume.Name, err)
		}
	}
	return nil
}

func (v *volumes) writeOne(ctx context.Context, volume corev1.Volume) error {
	path := v.path(volume)
	var files map[string][]byte
	var err error
	switch {
	case volume.EmptyDir != nil, volume.PersistentVolumeClaim != nil, volume.Ephemeral != nil:
		return os.MkdirAll(path, 0o777)
	case volume.HostPath != nil:
		return v.checkHostPath(volume.HostPath)
	case volume.ConfigMap != nil:
		files, err = v.configMapFiles(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items, volume.ConfigMap.Optional)
	case volume.Secret != nil:
		files, err = v.secretFiles(ctx, volume.Secret.SecretName, volume.Secret.Items, volume.Secret.Optional)
	case volume.DownwardAPI != nil:
		files, err = v.downward(volume.DownwardAPI.Items)
	case volume.Projected != nil:
		files, err = v.projected(ctx, volume.Projected)
	default:
		return errors.New("only configMap, secret, downwardAPI, projected, emptyDir, hostPath and persistentVolumeClaim can be had here")
	}
	if err != nil {
		return err
	}
	return writeFiles(path, files)
}

// checkHostPath refuses directories of this machine that the user has not allowed.
func (v *volumes) checkHostPath(source *corev1.HostPathVolumeSource) error {
	path := filepath.Clean(source.Path)
	for _, allowed := range v.allowed {
		if relative, err := filepath.Rel(allowed, path); err == nil && filepath.IsLocal(relative) {
			return nil
		}
	}
	return fmt.Errorf("hostPath %s is not allowed: say --run-host-path=%s if pods may use it", path, path)
}

func (v *volumes) configMapFiles(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	object, err := v.configMap(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	data := maps.Clone(object.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range object.Data {
		data[key] = []byte(value)
	}
	return pick(data, items, optional, "ConfigMap "+v.namespace+"/"+name)
}

func (v *volumes) secretFiles(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) (map[string][]byte, error) {
	object, err := v.secret(ctx, name, optional)
	if err != nil {
		return nil, err
	}
	return pick(object.Data, items, optional, "Secret "+v.namespace+"/"+name)
}

// pick is the data under the paths that items give to keys; without items all of it.
func pick(data map[string][]byte, items []corev1.KeyToPath, optional *bool, of string) (map[string][]byte, error) {
	if len(items) == 0 {
		return data, nil
	}
	files := map[string][]byte{}
	for _, item := range items {
		value, there := data[item.Key]
		if err := missing(there, optional, "key %s in %s", item.Key, of); err != nil {
			return nil, err
		}
		if there {
			files[item.Path] = value
		}
	}
	return files, nil
}

func (v *volumes) downward(items []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = podField(v.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			i := slices.IndexFunc(v.pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == item.ResourceFieldRef.ContainerName })
			if i < 0 {
				return nil, fmt.Errorf("there is no container %s", item.ResourceFieldRef.ContainerName)
			}
			value, err = resource.ExtractContainerResourceValue(item.ResourceFieldRef, &v.pod.Spec.Containers[i])
		}
		if err != nil {
			return nil, err
		}
		files[item.Path] = []byte(value)
	}
	return files, nil
}

func (v *volumes) projected(ctx context.Context, projected *corev1.ProjectedVolumeSource) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, source := range projected.Sources {
		var files map[string][]byte
		var err error
		switch {
		case source.ConfigMap != nil:
			files, err = v.configMapFiles(ctx, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
		case source.Secret != nil:
			files, err = v.secretFiles(ctx, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
		case source.DownwardAPI != nil:
			files, err = v.downward(source.DownwardAPI.Items)
		case source.ServiceAccountToken != nil:
			files, err = v.token(ctx, source.ServiceAccountToken)
		default:
			err = errors.New("only configMap, secret, downwardAPI and serviceAccountToken can be projected here")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(all, files)
	}
	return all, nil
}

// token is a token of the pod's ServiceAccount, which ends with the pod.
func (v *volumes) token(ctx context.Context, source *corev1.ServiceAccountTokenProjection) (map[string][]byte, error) {
	var audiences []string
	if source.Audience != "" {
		audiences = []string{source.Audience}
	}
	account := v.pod.Spec.ServiceAccountName
	key := source.Audience + " " + source.Path
	if made, ok := v.tokens[key]; ok && v.now().Before(made.renew) {
		return map[string][]byte{source.Path: []byte(made.text)}, nil
	}
	answer, err := v.client.CoreV1().ServiceAccounts(v.namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: v.pod.Name, UID: v.pod.UID},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of ServiceAccount %s/%s: %w", v.namespace, account, err)
	}
	// As a kubelet does: when 80 % of its life are over.
	life := answer.Status.ExpirationTimestamp.Sub(v.now())
	v.tokens[key] = madeToken{answer.Status.Token, v.now().Add(life * 4 / 5)}
	return map[string][]byte{source.Path: []byte(answer.Status.Token)}, nil
}

// writeFiles makes a directory hold just these files, each replaced at once.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for path, data := range files {
		if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if old, err := root.ReadFile(path); err == nil && string(old) == string(data) {
			continue
		}
		if err := datadir.WriteFile(filepath.Join(dir, path), data, 0o644); err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if _, wanted := files[path]; wanted {
			return nil
		}
		return root.Remove(path)
	})
}

// mounts are those of a container, parents before what is below them.
func (v *volumes) mounts(container *corev1.Container, env map[string]string) ([]sandbox.Mount, error) {
	var mounts []sandbox.Mount
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(v.pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == mount.Name })
		if i < 0 {
			return nil, fmt.Errorf("there is no volume %s", mount.Name)
		}
		sub := mount.SubPath
		if mount.SubPathExpr != "" {
			sub = expand([]string{mount.SubPathExpr}, env)[0]
		}
		source, err := v.below(v.path(v.pod.Spec.Volumes[i]), sub)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: mount.MountPath, ReadOnly: mount.ReadOnly})
	}
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int { return strings.Compare(a.Target, b.Target) })
	return mounts, nil
}

// below is a path in a volume, which becomes a directory if there is nothing.
func (v *volumes) below(volume, sub string) (string, error) {
	if sub == "" {
		return volume, nil
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if _, err := root.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		err = root.MkdirAll(sub, 0o777)
		return filepath.Join(volume, sub), err
	} else if err != nil {
		return "", err
	}
	return filepath.Join(volume, sub), nil
}
