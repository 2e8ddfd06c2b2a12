package grpcserver

import (
	"bytes"
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that Codec falls back to
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Encoded is a protobuf message in its wire form, to be sent with SendMsg on
// any number of streams at once: no stream copies the bytes. Immutable.
type Encoded struct {
	data    []byte
	buffers mem.BufferSlice
}

// NewEncoded wraps data, which must not change any more.
func NewEncoded(data []byte) *Encoded {
	return &Encoded{data: data, buffers: mem.BufferSlice{mem.SliceBuffer(data)}}
}

// Encode encodes m; equal messages give equal bytes.
func Encode(m proto.Message) (*Encoded, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return NewEncoded(data), nil
}

// Bytes is the wire form. Do not change it.
func (e *Encoded) Bytes() []byte { return e.data }

// Equal tells whether both are the same message; nil equals only nil.
func (e *Encoded) Equal(other *Encoded) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e == other || bytes.Equal(e.data, other.data)
}

// Codec sends an *Encoded as it is and leaves every other message to the
// protobuf codec of grpc-go.
type Codec struct{ fallback encoding.CodecV2 }

var _ encoding.CodecV2 = Codec{}

// NewCodec returns the codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2("proto")} }

// Name is that of the protobuf codec: on the wire there is no difference.
func (c Codec) Name() string { return c.fallback.Name() }

// Marshal returns the shared bytes of an *Encoded. They carry no reference
// count, so that gRPC freeing them is no event.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*Encoded); ok {
		return e.buffers, nil
	}
	return c.fallback.Marshal(v)
}

// Unmarshal decodes into v.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error { return c.fallback.Unmarshal(data, v) }
