package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// sixtyDays is what `linkerd check` wants certificates to last at least.
const sixtyDays = 60 * 24 * time.Hour

// TestCertificatesOfCheck holds the certificates among the control plane's
// objects against each other, as `linkerd check` does (layout sections 4 and 5).
func TestCertificatesOfCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	i := startInstance(t, "--without", "controllers,kubelet")
	config, _ := i.objects()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, options := t.Context(), metav1.GetOptions{}
	secret := func(name string) *corev1.Secret {
		t.Helper()
		s, err := kube.CoreV1().Secrets("linkerd").Get(ctx, name, options)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	verify := func(what string, cert, key, roots []byte, name string) *x509.Certificate {
		t.Helper()
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatalf("%s: certificate and key: %v", what, err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(roots) {
			t.Fatalf("%s: no roots", what)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{
			Roots: pool, DNSName: name, CurrentTime: time.Now().Add(sixtyDays), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return leaf
	}

	validating := func(name string) []byte {
		t.Helper()
		c, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, name, options)
		if err != nil {
			t.Fatal(err)
		}
		return c.Webhooks[0].ClientConfig.CABundle
	}
	mutating, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "linkerd-proxy-injector-webhook-config", options)
	if err != nil {
		t.Fatal(err)
	}
	for service, bundle := range map[string][]byte{
		"linkerd-sp-validator":     validating("linkerd-sp-validator-webhook-config"),
		"linkerd-policy-validator": validating("linkerd-policy-validator-webhook-config"),
		"linkerd-proxy-injector":   mutating.Webhooks[0].ClientConfig.CABundle,
	} {
		s := secret(service + "-k8s-tls")
		if s.Type != corev1.SecretTypeTLS {
			t.Errorf("%s is of type %s", s.Name, s.Type)
		}
		verify(s.Name, s.Data["tls.crt"], s.Data["tls.key"], bundle, service+".linkerd.svc")
	}

	roots, err := kube.CoreV1().ConfigMaps("linkerd").Get(ctx, "linkerd-identity-trust-roots", options)
	if err != nil {
		t.Fatal(err)
	}
	anchors := roots.Data["ca-bundle.crt"]
	s := secret("linkerd-identity-issuer")
	issuer := verify(s.Name, s.Data["crt.pem"], s.Data["key.pem"], []byte(anchors), "")
	if !issuer.IsCA || issuer.SignatureAlgorithm != x509.ECDSAWithSHA256 {
		t.Errorf("the issuer is an authority: %v, signed with %v", issuer.IsCA, issuer.SignatureAlgorithm)
	}
	linkerdConfig, err := kube.CoreV1().ConfigMaps("linkerd").Get(ctx, "linkerd-config", options)
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		IdentityTrustAnchorsPEM string
		Identity                struct {
			Issuer struct{ ClockSkewAllowance, IssuanceLifetime, Scheme string }
		}
	}
	if err := yaml.Unmarshal([]byte(linkerdConfig.Data["values"]), &values); err != nil {
		t.Fatal(err)
	}
	if values.IdentityTrustAnchorsPEM != anchors {
		t.Error("the values have other trust anchors")
	}
	if got := values.Identity.Issuer; got.ClockSkewAllowance != "10s" || got.IssuanceLifetime != "24h0m0s" || got.Scheme != "linkerd.io/tls" {
		t.Errorf("the values say of the issuer %+v", got)
	}
	if text := i.metrics(); !strings.Contains(text, "\nissuer_cert_ttl_seconds 3.15") {
		t.Error("no issuer_cert_ttl_seconds of a year")
	}
}
