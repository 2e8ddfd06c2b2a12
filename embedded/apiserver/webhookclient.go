package apiserver

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

// WebhookClient is how the server shows itself to the admission webhooks at one
// address; to others it shows nothing. The zero value means none.
type WebhookClient struct {
	// Address is HOST:PORT as in the webhooks' URLs.
	Address string
	// Certificate and Key are PEM.
	Certificate, Key []byte
}

// webhookPlugins are the admission plugins that call webhooks.
var webhookPlugins = []string{"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}

// write makes the files from which the admission plugins read the certificate,
// the only way in which they take one, and returns the path of the first.
func (c WebhookClient) write(dir string) (string, error) {
	users := clientcmdapi.NewConfig()
	users.AuthInfos[c.Address] = &clientcmdapi.AuthInfo{ClientCertificateData: c.Certificate, ClientKeyData: c.Key}
	data, err := clientcmd.Write(*users)
	if err != nil {
		return "", fmt.Errorf("encoding the client of webhooks: %w", err)
	}
	// The plugins ask for an absolute path.
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("client of webhooks: %w", err)
	}
	kubeconfig, admission := filepath.Join(dir, "webhooks.kubeconfig"), filepath.Join(dir, "admission.json")
	if err := datadir.WriteFile(kubeconfig, data, 0o600); err != nil {
		return "", err
	}
	const group = "apiserver.config.k8s.io/v1"
	var plugins []any
	for _, name := range webhookPlugins {
		plugins = append(plugins, map[string]any{"name": name, "configuration": map[string]any{
			"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": kubeconfig,
		}})
	}
	if data, err = json.Marshal(map[string]any{"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}); err != nil {
		return "", fmt.Errorf("encoding the configuration of admission: %w", err)
	}
	return admission, datadir.WriteFile(admission, data, 0o600)
}
