package proxyshim

// Protocol is what the first bytes of a connection say it is.
type Protocol int

const (
	// Undecided needs more bytes.
	Undecided Protocol = iota
	// Plaintext is HTTP/2 with prior knowledge.
	Plaintext
	// ClientHello is the begin of a TLS handshake.
	ClientHello
	// Unknown is neither.
	Unknown
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

// Detect decides by the bytes read so far.
func Detect(b []byte) Protocol {
	if len(b) == 0 {
		return Undecided
	}
	if b[0] != recordHandshake {
		n := min(len(b), len(http2Preface))
		switch {
		case string(b[:n]) != http2Preface[:n]:
			return Unknown
		case n < len(http2Preface):
			return Undecided
		}
		return Plaintext
	}
	switch {
	case len(b) > 1 && b[1] != recordMajor, len(b) > 2 && b[2] > recordMaxMinor:
		return Unknown
	case len(b) <= messageOffset:
		return Undecided
	case b[messageOffset] != messageClientHello:
		return Unknown
	}
	return ClientHello
}
