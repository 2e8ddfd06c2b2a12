package proxyshim

import (
	"context"
	"time"
)

// SetHandshakeTimeout shortens the timeout for a test. Call it before Run.
func (s *Shim) SetHandshakeTimeout(d time.Duration) { s.timeout = d }

// CertificateEnd is the end of the certificate that the service with the port
// would serve now.
func (s *Shim) CertificateEnd(port uint16) (time.Time, error) {
	for _, svc := range s.services {
		if svc.Port == port {
			_, err := svc.certificate.get()
			return svc.certificate.end, err
		}
	}
	return time.Time{}, context.Canceled
}
