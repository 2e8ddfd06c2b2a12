package proxyshim

// protocol is what the first bytes of a connection say it is.
type protocol int

const (
	// undecided needs more bytes.
	undecided protocol = iota
	// plaintext is HTTP/2 with prior knowledge.
	plaintext
	// clientHello is the begin of a TLS handshake.
	clientHello
	// unknown is neither.
	unknown
)

// detectBytes is how many bytes always suffice to decide.
const detectBytes = len(http2Preface)

// http2Preface is what detection compares. The rest of HTTP/2's preface is
// left to the HTTP/2 server; the proxy decides by the same 14 bytes.
const http2Preface = "PRI * HTTP/2.0"

// The bytes of a TLS record with a ClientHello that do not vary: content type
// handshake, major version 3, and behind two bytes of length the message type.
const (
	recordHandshake    = 0x16
	recordMajor        = 3
	recordMaxMinor     = 3
	messageClientHello = 1
	messageOffset      = 5
)

// detect decides by the bytes read so far.
func detect(b []byte) protocol {
	if len(b) == 0 {
		return undecided
	}
	if b[0] != recordHandshake {
		n := min(len(b), len(http2Preface))
		switch {
		case string(b[:n]) != http2Preface[:n]:
			return unknown
		case n < len(http2Preface):
			return undecided
		}
		return plaintext
	}
	switch {
	case len(b) > 1 && b[1] != recordMajor, len(b) > 2 && b[2] > recordMaxMinor:
		return unknown
	case len(b) <= messageOffset:
		return undecided
	case b[messageOffset] != messageClientHello:
		return unknown
	}
	return clientHello
}
