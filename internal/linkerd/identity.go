package linkerd

import "strings"

// ServiceAccountIdentity is the TLS identity of a pod (D 1.12). An empty
// account or namespace means "default".
func ServiceAccountIdentity(account, namespace, controlPlaneNamespace, trustDomain string) string {
	if account == "" {
		account = "default"
	}
	if namespace == "" {
		namespace = "default"
	}
	return strings.Join([]string{account, namespace, "serviceaccount", "identity", controlPlaneNamespace, trustDomain}, ".")
}
