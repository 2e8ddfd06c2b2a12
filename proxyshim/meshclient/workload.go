package meshclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
)

// Workload is a workload of the mesh, as the environment of its proxy describes
// it (proxy section 3).
type Workload struct {
	// Request has the workload's identity and its key.
	Request *Request
	// TokenFile is read at each Certify: tokens are replaced.
	TokenFile string
	// DestinationContext is the token of requests to destination,
	// PolicyWorkload the workload of requests to policy.
	DestinationContext, PolicyWorkload string
	// Destination, Policy and Identity are the control plane. Their Identity is
	// nil until somebody sets it.
	Destination, Policy, Identity Target
}

// FromEnvironment reads a proxy's environment and the files that it names.
func FromEnvironment(getenv func(string) string) (*Workload, error) {
	var missing []error
	get := func(name string) string {
		name = "LINKERD2_PROXY_" + name
		value := getenv(name)
		if value == "" {
			missing = append(missing, fmt.Errorf("%s is not set: eval the output of linkerd-lite proxy-env", name))
		}
		return value
	}
	anchors := x509.NewCertPool()
	pem := get("IDENTITY_TRUST_ANCHORS")
	target := func(service string) Target {
		return Target{Addr: get(service + "_SVC_ADDR"), ServerName: get(service + "_SVC_NAME"), Anchors: anchors}
	}
	name, dir := get("IDENTITY_LOCAL_NAME"), get("IDENTITY_DIR")
	w := &Workload{
		TokenFile:          get("IDENTITY_TOKEN_FILE"),
		DestinationContext: get("DESTINATION_CONTEXT"),
		PolicyWorkload:     get("POLICY_WORKLOAD"),
		Destination:        target("DESTINATION"),
		Policy:             target("POLICY"),
		Identity:           target("IDENTITY"),
	}
	if len(missing) > 0 {
		return nil, missing[0]
	}
	if !anchors.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS has no certificate in PEM")
	}
	var err error
	if _, missing := os.Stat(filepath.Join(dir, keyFile)); errors.Is(missing, fs.ErrNotExist) {
		// A helper in the proxy's image writes it before the proxy starts; who has
		// no helper makes it now.
		w.Request, err = NewRequest(name)
	} else {
		w.Request, err = ReadRequest(dir, name)
	}
	return w, err
}

// keyFile is the key in a proxy's identity directory.
const keyFile = "key.p8"

// ReadRequest reads key and request of identity from the files that a proxy
// finds in its identity directory (identity section 6).
func ReadRequest(dir, identity string) (*Request, error) {
	keyDER, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("read key of %s: %w", identity, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return nil, fmt.Errorf("read key of %s: %w", identity, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read key of %s: it is a %T, want ECDSA", identity, parsed)
	}
	csrDER, err := os.ReadFile(filepath.Join(dir, "csr.der"))
	if err != nil {
		return nil, fmt.Errorf("read certificate request of %s: %w", identity, err)
	}
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil {
		return nil, fmt.Errorf("read certificate request of %s: %w", identity, err)
	}
	if !slices.Equal(csr.DNSNames, []string{identity}) || !key.PublicKey.Equal(csr.PublicKey) {
		return nil, fmt.Errorf("the certificate request in %s is not for %s, or not made with the key beside it", dir, identity)
	}
	return &Request{identity, key, csrDER}, nil
}

// Certify gets the workload's certificate, by TLS and without showing one.
func (w *Workload) Certify(ctx context.Context, options ...grpc.DialOption) (*Identity, error) {
	token, err := os.ReadFile(w.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	cc, err := w.Identity.Dial(options...)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	return w.Request.Certify(ctx, cc, token)
}
