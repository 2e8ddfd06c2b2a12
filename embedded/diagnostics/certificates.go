package diagnostics

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// WriteCertificates prints a table of both bundles.
func WriteCertificates(w io.Writer, now time.Time, anchors, issuer []byte) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ROLE\tSUBJECT\tALGORITHM\tNOT AFTER\tDAYS LEFT")
	for _, bundle := range []struct {
		role string
		pem  []byte
	}{{"anchor", anchors}, {"issuer", issuer}} {
		for rest := bundle.pem; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return fmt.Errorf("reading the %s certificate: %w", bundle.role, err)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.0f\n", bundle.role, cert.Subject, cert.PublicKeyAlgorithm,
				cert.NotAfter.UTC().Format(time.RFC3339), math.Floor(cert.NotAfter.Sub(now).Hours()/24))
		}
	}
	return table.Flush()
}
