package dataplane

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
)

// kind is what a connection speaks by its first bytes.
type kind int

const (
	undecided kind = iota
	notHTTP
	http1
	http2
)

// leastHTTP is the number of bytes by which an HTTP/1 request is known.
const leastHTTP = 14

// httpKind decides by the bytes read so far.
func httpKind(b []byte) kind {
	switch proxyshim.Detect(b) {
	case proxyshim.Plaintext:
		return http2
	case proxyshim.ClientHello:
		return notHTTP
	}
	line, _, whole := bytes.Cut(b, []byte("\n"))
	method, rest, spaced := bytes.Cut(line, []byte(" "))
	isToken := !bytes.ContainsFunc(method, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' && r != '_' })
	switch {
	case !isToken, spaced && len(method) == 0, !spaced && (whole || len(method) > 2*leastHTTP):
		return notHTTP
	case whole:
		line = bytes.TrimSuffix(line, []byte("\r"))
		version := line[max(0, len(line)-len(" HTTP/1.1")):]
		if bytes.HasPrefix(version, []byte(" HTTP/1.")) && len(rest) > len("HTTP/1.1") {
			return http1
		}
		return notHTTP
	case spaced && len(b) >= leastHTTP && (bytes.ContainsAny(rest[:1], "/*") || bytes.Contains(rest, []byte(":"))):
		return http1
	}
	return undecided
}

// isHTTPKnown ends sniffing when httpKind is decided.
func isHTTPKnown(b []byte) bool { return httpKind(b) != undecided }

// isTLSKnown ends sniffing when there is no TLS, or all of the first record.
func isTLSKnown(b []byte) bool {
	const header = 5
	switch proxyshim.Detect(b) {
	case proxyshim.Undecided:
		return false
	case proxyshim.ClientHello:
		return len(b) >= header+int(binary.BigEndian.Uint16(b[3:header]))
	}
	return true
}

// serverName is what the ClientHello at the begin of b asks for. It is not ok
// if there is none.
func serverName(b []byte) (name string, ok bool) {
	if proxyshim.Detect(b) != proxyshim.ClientHello {
		return "", false
	}
	errEnough := errors.New("enough")
	_ = tls.Server(readOnly{Reader: bytes.NewReader(b)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = hello.ServerName, true
			return nil, errEnough
		},
	}).Handshake()
	return name, ok
}

// readOnly is a connection of which only reading works.
type readOnly struct {
	net.Conn
	io.Reader
}

func (r readOnly) Read(p []byte) (int, error) { return r.Reader.Read(p) }
func (readOnly) Write(p []byte) (int, error)  { return len(p), nil }
func (readOnly) Close() error                 { return nil }
