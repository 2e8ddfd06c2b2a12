package links

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// credentials are what a Secret says about a cluster. Comparable: another
// value is another link.
type credentials struct {
	cluster, trustDomain, clusterDomain string
	kubeconfig                          string
}

// parse reads a Secret. The error says what it lacks (D145).
func parse(secret *corev1.Secret) (credentials, error) {
	c := credentials{cluster: secret.Labels[linkerd.ClusterNameLabel]}
	if secret.Type != linkerd.RemoteKubeconfigSecretType {
		return c, fmt.Errorf("type is %q, not %q", secret.Type, linkerd.RemoteKubeconfigSecretType)
	}
	if c.cluster == "" {
		return c, errors.New("label " + linkerd.ClusterNameLabel + " is missing")
	}
	kubeconfig, ok := secret.Data[linkerd.RemoteKubeconfigKey]
	if !ok {
		return c, errors.New("data has no key " + linkerd.RemoteKubeconfigKey)
	}
	c.kubeconfig = string(kubeconfig)
	if c.trustDomain, ok = secret.Annotations[linkerd.TrustDomainAnnotation]; !ok {
		return c, errors.New("annotation " + linkerd.TrustDomainAnnotation + " is missing")
	}
	if c.clusterDomain, ok = secret.Annotations[linkerd.ClusterDomainAnnotation]; !ok {
		return c, errors.New("annotation " + linkerd.ClusterDomainAnnotation + " is missing")
	}
	return c, nil
}

// wanted are the credentials by cluster. Of several Secrets for one cluster
// the newest counts. reject is told of Secrets that are no credentials.
func wanted(secrets iter.Seq[*corev1.Secret], reject func(*corev1.Secret, error)) map[string]credentials {
	sorted := slices.SortedFunc(secrets, func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	found := map[string]credentials{}
	for _, secret := range sorted {
		c, err := parse(secret)
		if err != nil {
			reject(secret, err)
			continue
		}
		found[c.cluster] = c
	}
	return found
}
