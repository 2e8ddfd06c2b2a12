package proxyshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// reason is why a connection was refused: a label value, so of a fixed set.
type reason string

const (
	reasonProtocol    reason = "neither TLS nor HTTP/2"
	reasonPlaintext   reason = "plaintext not from loopback"
	reasonDirect      reason = "plaintext on the direct path"
	reasonTimeout     reason = "handshake timeout"
	reasonClosed      reason = "closed during handshake"
	reasonTLS         reason = "TLS handshake failed"
	reasonVersion     reason = "TLS version"
	reasonName        reason = "server name"
	reasonALPN        reason = "application protocol"
	reasonCertificate reason = "no certificate to serve"
	reasonNoClient    reason = "no client certificate"
	reasonExpired     reason = "client certificate expired"
	reasonNotYet      reason = "client certificate not yet valid"
	reasonAuthority   reason = "client certificate of an unknown authority"
	reasonClient      reason = "client certificate invalid"
	reasonHeader      reason = "transport header invalid"
	reasonHeaderSize  reason = "transport header too large"
	reasonTarget      reason = "transport header target"
)

// refusal is the error of a connection that is not served.
type refusal struct {
	reason reason
	detail string
	// cause may be nil.
	cause error
}

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.cause }

func (r *refusal) Error() string {
	if r.detail == "" {
		return string(r.reason)
	}
	return string(r.reason) + ": " + r.detail
}

func refuse(r reason, format string, args ...any) *refusal {
	return &refusal{reason: r, detail: fmt.Sprintf(format, args...)}
}

// refusalOf names the reason behind a failed read or handshake; other is that
// of an error which says nothing more exact.
func refusalOf(err error, other reason) *refusal {
	var r *refusal
	var network net.Error
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return refuse(reasonTimeout, "not complete after %v", handshakeTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return &refusal{reasonClosed, err.Error(), err}
	}
	return refuse(other, "%v", err)
}
