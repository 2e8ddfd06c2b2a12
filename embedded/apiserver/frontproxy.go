package apiserver

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const frontProxyName = "front-proxy-client"

// frontProxy is how the API server shows itself to aggregated API servers, which it
// tells in headers on whose behalf it asks. They find the authority in the ConfigMap
// kube-system/extension-apiserver-authentication, and it is none that signs other
// clients: whoever has a certificate of it can be anybody there. The authority outlasts
// a run, as that ConfigMap collects all that there were.
type frontProxy struct{ caFile, certFile, keyFile string }

func (k *Keys) loadFrontProxy(dir string) error {
	ca, key, err := loadCA(dir, "front-proxy-ca", "linkerd-lite front proxy")
	if err != nil {
		return err
	}
	certPEM, keyPEM, err := issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: frontProxyName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key)
	if err != nil {
		return err
	}
	k.frontProxy = frontProxy{
		caFile: filepath.Join(dir, "front-proxy-ca.crt"), certFile: filepath.Join(dir, "front-proxy-client.crt"), keyFile: filepath.Join(dir, "front-proxy-client.key"),
	}
	if err := cert.WriteCert(k.frontProxy.certFile, certPEM); err != nil {
		return fmt.Errorf("writing the certificate for aggregated API servers: %w", err)
	}
	if err := keyutil.WriteKey(k.frontProxy.keyFile, keyPEM); err != nil {
		return fmt.Errorf("writing the key for aggregated API servers: %w", err)
	}
	return nil
}

// set makes the API server ask others as the front proxy.
func (f frontProxy) set(o *options.ServerRunOptions) {
	o.ProxyClientCertFile, o.ProxyClientKeyFile = f.certFile, f.keyFile
	headers := o.Authentication.RequestHeader
	headers.ClientCAFile = f.caFile
	headers.AllowedNames = []string{frontProxyName}
	headers.UsernameHeaders = []string{"X-Remote-User"}
	headers.GroupHeaders = []string{"X-Remote-Group"}
	headers.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
}
