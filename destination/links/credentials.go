package links

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
)

// credentials are what a Secret says about a cluster.
type credentials struct {
	secret                              string
	cluster, trustDomain, clusterDomain string
	kubeconfig                          string
}

// equal tells whether both make the same link, whichever Secrets they are from.
func (c credentials) equal(other credentials) bool {
	other.secret = c.secret
	return c == other
}

// parse reads a Secret. The error says what is wrong with it (D145).
func parse(secret *corev1.Secret) (credentials, error) {
	c := credentials{secret: nameOf(secret), cluster: secret.Labels[linkerd.ClusterNameLabel]}
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
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	switch {
	case err != nil:
		return c, fmt.Errorf("read the kubeconfig: %w", err)
	case config.ExecProvider != nil, config.AuthProvider != nil, config.BearerTokenFile != "":
		// Whoever may write the Secret could run commands on this machine, or be sent its files.
		return c, errors.New("the kubeconfig has a command, plugin or file for its credentials; put a token or certificate into it")
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

func nameOf(secret *corev1.Secret) string { return secret.Namespace + "/" + secret.Name }

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
