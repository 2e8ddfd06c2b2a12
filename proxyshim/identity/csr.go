package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// request is a certificate request that has passed all checks but that of its key.
type request struct{ csr *x509.CertificateRequest }

// parseRequest reads a CSR, which is DER although the schema says PEM (identity section 2).
func parseRequest(der []byte) (request, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return request{}, status.Errorf(codes.InvalidArgument, "parse certificate signing request (DER): %v", err)
	}
	return request{csr}, nil
}

// check holds the request against the identity that it is for (rules 4 to 7).
// Unlike Linkerd it also asks for a valid signature of the request itself:
// whoever cannot make one does not hold the key.
func (r request) check(identity string) error {
	csr := r.csr
	var err error
	switch {
	case len(csr.DNSNames) != 1:
		err = fmt.Errorf("the request has %d DNS names, want one", len(csr.DNSNames))
	case csr.DNSNames[0] != identity:
		err = fmt.Errorf("the request is for %q, not for %q", csr.DNSNames[0], identity)
	case csr.Subject.CommonName != "" && csr.Subject.CommonName != identity:
		err = fmt.Errorf("the request's common name is %q, not %q", csr.Subject.CommonName, identity)
	case len(csr.EmailAddresses) > 0:
		err = errors.New("the request has e-mail addresses")
	case len(csr.IPAddresses) > 0:
		err = errors.New("the request has IP addresses")
	case len(csr.URIs) > 0:
		err = errors.New("the request has URIs")
	default:
		if signature := csr.CheckSignature(); signature != nil {
			err = fmt.Errorf("the request is not signed by its key: %w", signature)
		}
	}
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return nil
}

// key is the request's public key (rule 10).
func (r request) key() (*ecdsa.PublicKey, error) {
	key, ok := r.csr.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, status.Errorf(codes.Internal, "the request's key is %v, want ECDSA", r.csr.PublicKeyAlgorithm)
	}
	return key, nil
}
