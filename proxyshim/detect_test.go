package proxyshim_test

import (
	"bytes"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/proxyshim"
)

func TestDetect(t *testing.T) {
	hello := []byte{0x16, 3, 1, 2, 0, 1}
	for _, test := range []struct {
		name  string
		want  proxyshim.Protocol
		bytes []byte
	}{
		{"nothing", proxyshim.Undecided, nil},
		{"HTTP/2", proxyshim.Plaintext, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		{"begin of HTTP/2", proxyshim.Undecided, []byte("PRI * HTTP/2")},
		{"HTTP/1", proxyshim.Unknown, []byte("GET / HTTP/1.1\r\n")},
		{"TLS, record version 3.1", proxyshim.ClientHello, hello},
		{"TLS, record version 3.3", proxyshim.ClientHello, []byte{0x16, 3, 3, 2, 0, 1}},
		{"begin of TLS", proxyshim.Undecided, hello[:5]},
		{"other handshake message", proxyshim.Unknown, []byte{0x16, 3, 1, 2, 0, 2}},
		{"other record", proxyshim.Unknown, []byte{0x17, 3, 1, 2, 0, 1}},
		{"SSL 2", proxyshim.Unknown, []byte{0x16, 2}},
		{"unknown minor version", proxyshim.Unknown, []byte{0x16, 3, 4}},
		{"zeros", proxyshim.Unknown, make([]byte, 10)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := proxyshim.Detect(test.bytes); got != test.want {
				t.Errorf("detected %d, want %d", got, test.want)
			}
		})
	}
}

// FuzzDetect checks that a decision stands however many bytes are there.
func FuzzDetect(f *testing.F) {
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Add([]byte{0x16, 3, 1, 2, 0, 1, 0, 1})
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		decided := proxyshim.Undecided
		for n := range len(b) + 1 {
			got := proxyshim.Detect(b[:n])
			if decided != proxyshim.Undecided && got != decided {
				t.Fatalf("%d after fewer bytes, %d after %d", decided, got, n)
			}
			if n >= len("PRI * HTTP/2.0") && got == proxyshim.Undecided {
				t.Fatalf("undecided after %d bytes", n)
			}
			decided = got
		}
	})
}

func TestHeader(t *testing.T) {
	encoded := proxyshim.AppendHeader(nil, proxyshim.Header{Port: 8080, Protocol: proxyshim.HTTP2})
	if want := "transport.l5d.io/v1\r\n\r\n\x00\x00\x00\x07\x08\x90\x3f\x1a\x02\x12\x00"; string(encoded) != want {
		t.Errorf("encoded %q, want %q", encoded, want)
	}
	for _, h := range []proxyshim.Header{
		{Port: 1}, {Port: 65535, Protocol: proxyshim.HTTP1}, {Port: 8086, Name: "web.ns.svc.cluster.local", Protocol: proxyshim.HTTP2},
	} {
		r := bytes.NewReader(append(proxyshim.AppendHeader(nil, h), "rest"...))
		got, err := proxyshim.ReadHeader(r)
		if err != nil || got != h || r.Len() != len("rest") {
			t.Errorf("read %+v, %v with %d bytes left, want %+v", got, err, r.Len(), h)
		}
	}
	const preface = "transport.l5d.io/v1\r\n\r\n"
	for name, in := range map[string]string{
		"no preface":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n    ",
		"cut":             preface + "\x00\x00\x00\x07\x08",
		"too large":       preface + "\x00\x01\x00\x00",
		"port 0":          preface + "\x00\x00\x00\x02\x08\x00",
		"port 65536":      preface + "\x00\x00\x00\x04\x08\x80\x80\x04",
		"negative port":   preface + "\x00\x00\x00\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"without port":    preface + "\x00\x00\x00\x00",
		"broken message":  preface + "\x00\x00\x00\x01\x08",
		"broken protocol": preface + "\x00\x00\x00\x05\x08\x01\x1a\x01\x08",
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := proxyshim.ReadHeader(bytes.NewReader([]byte(in))); err == nil {
				t.Errorf("read %+v", h)
			}
		})
	}
}

// FuzzHeader checks that what is read can be written and read again.
func FuzzHeader(f *testing.F) {
	f.Add(proxyshim.AppendHeader(nil, proxyshim.Header{Port: 8080, Protocol: proxyshim.HTTP2}))
	f.Add(proxyshim.AppendHeader(nil, proxyshim.Header{Port: 1, Name: "a", Protocol: proxyshim.HTTP1}))
	f.Add([]byte("transport.l5d.io/v1\r\n\r\n\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := proxyshim.ReadHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		if h.Port == 0 {
			t.Fatal("read a header without a port")
		}
		again, err := proxyshim.ReadHeader(bytes.NewReader(proxyshim.AppendHeader(nil, h)))
		if err != nil || again != h {
			t.Fatalf("read %+v, then %+v, %v", h, again, err)
		}
	})
}
