package proxyenv

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/identity"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// The files that a proxy looks for in its identity directory (identity
// section 6), and the token, which may lie anywhere.
const (
	keyFile   = "key.p8"
	csrFile   = "csr.der"
	tokenFile = "token"
)

// Dir is the directory of a pod's identity below the instance's data.
func Dir(dataDir, namespace, pod string) string {
	return filepath.Join(dataDir, "proxies", namespace, pod)
}

// WriteIdentity makes a key and a certificate request for name in dir, as the
// helper in a proxy's image does; what is there is overwritten.
func WriteIdentity(dir, name string) error {
	request, err := meshclient.NewRequest(name)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(request.Key)
	if err != nil {
		return fmt.Errorf("encode key for %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make identity directory: %w", err)
	}
	if err := datadir.WriteFile(filepath.Join(dir, keyFile), key, 0o600); err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(dir, csrFile), request.CSR, 0o600)
}

// WriteToken replaces the token in dir; a proxy reads it at every renewal.
func WriteToken(dir, token string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make identity directory: %w", err)
	}
	return datadir.WriteFile(filepath.Join(dir, tokenFile), []byte(token), 0o600)
}

// TokenCreator makes tokens of service accounts.
// CoreV1().ServiceAccounts(namespace) of client-go is one.
type TokenCreator interface {
	CreateToken(ctx context.Context, account string, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// Token gets a token with which account proves itself to identity. With a pod
// it ends when the pod is deleted, if not before.
func Token(ctx context.Context, accounts TokenCreator, account string, pod *corev1.Pod, lifetime time.Duration) (string, error) {
	seconds := int64(lifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{identity.Audience}, ExpirationSeconds: &seconds,
	}}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := accounts.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make token of service account %s: %w", account, err)
	}
	return answer.Status.Token, nil
}
