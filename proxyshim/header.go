package proxyshim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// ALPN is the protocol that a client negotiates to send a transport header.
const ALPN = "transport.l5d.io/v1"

const (
	headerPreface = ALPN + "\r\n\r\n"
	// maxHeader is the size limit of an encoded header in bytes.
	maxHeader = 65_535
)

// SessionProtocol is what follows a transport header.
type SessionProtocol int

// What a transport header can say of the bytes behind it; without a word of it
// they are opaque (proxy section 7).
const (
	Opaque SessionProtocol = iota
	HTTP1
	HTTP2
)

// String is the metric label that the proxy uses.
func (p SessionProtocol) String() string {
	switch p {
	case HTTP1:
		return "http/1"
	case HTTP2:
		return "http/2"
	}
	return ""
}

// Header is a transport header: where the bytes behind it want to go.
type Header struct {
	// Port is that of the application, 1 to 65535.
	Port uint16
	// Name is set when a gateway is asked to pass the connection on.
	Name     string
	Protocol SessionProtocol
}

// The field numbers of transport.l5d.io.Header and its SessionProtocol.
const (
	headerPort     = 1
	headerName     = 2
	headerProtocol = 3
	protocolHTTP1  = 1
	protocolHTTP2  = 2
)

var errHeaderTooLarge = errors.New("the transport header is larger than 65535 bytes")

// AppendHeader appends h in its wire form, preface and length included.
func AppendHeader(b []byte, h Header) []byte {
	var body []byte
	body = protowire.AppendTag(body, headerPort, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(h.Port))
	if h.Name != "" {
		body = protowire.AppendTag(body, headerName, protowire.BytesType)
		body = protowire.AppendString(body, h.Name)
	}
	if h.Protocol != Opaque {
		number := protowire.Number(protocolHTTP1)
		if h.Protocol == HTTP2 {
			number = protocolHTTP2
		}
		var kind []byte
		kind = protowire.AppendTag(kind, number, protowire.BytesType)
		kind = protowire.AppendBytes(kind, nil)
		body = protowire.AppendTag(body, headerProtocol, protowire.BytesType)
		body = protowire.AppendBytes(body, kind)
	}
	b = append(b, headerPreface...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// ReadHeader reads a transport header and not a byte more.
func ReadHeader(r io.Reader) (Header, error) {
	var start [len(headerPreface) + 4]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return Header{}, fmt.Errorf("read preface of transport header: %w", err)
	}
	if string(start[:len(headerPreface)]) != headerPreface {
		return Header{}, errors.New("what follows the handshake is no transport header")
	}
	size := binary.BigEndian.Uint32(start[len(headerPreface):])
	if size > maxHeader {
		return Header{}, errHeaderTooLarge
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return Header{}, fmt.Errorf("read transport header: %w", err)
	}
	return parseHeader(body)
}

// parseHeader decodes the message; unknown fields are skipped.
func parseHeader(body []byte) (Header, error) {
	var h Header
	err := fields(body, func(number protowire.Number, kind protowire.Type, value []byte, varint uint64) error {
		switch {
		case number == headerPort && kind == protowire.VarintType:
			port := int32(varint)
			if port < 1 || port > math.MaxUint16 {
				return fmt.Errorf("the transport header has port %d", port)
			}
			h.Port = uint16(port)
		case number == headerName && kind == protowire.BytesType:
			h.Name = string(value)
		case number == headerProtocol && kind == protowire.BytesType:
			return fields(value, func(number protowire.Number, kind protowire.Type, _ []byte, _ uint64) error {
				switch {
				case kind != protowire.BytesType:
				case number == protocolHTTP1:
					h.Protocol = HTTP1
				case number == protocolHTTP2:
					h.Protocol = HTTP2
				}
				return nil
			})
		}
		return nil
	})
	if err == nil && h.Port == 0 {
		err = errors.New("the transport header has no port")
	}
	if err != nil {
		return Header{}, err
	}
	return h, nil
}

// fields calls each with every field of a message.
func fields(b []byte, each func(protowire.Number, protowire.Type, []byte, uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("decode transport header: %w", protowire.ParseError(n))
		}
		b = b[n:]
		var value []byte
		var varint uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("decode transport header: %w", protowire.ParseError(n))
		}
		b = b[n:]
		if err := each(number, kind, value, varint); err != nil {
			return err
		}
	}
	return nil
}
