package inbound

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// authz is an authorization in both forms in which answers take it up.
// Immutable.
type authz struct {
	*pb.Authz
	// encoded is a Server message with this authorization and nothing else.
	// Appended to another one it adds the authorization to that, as encoded
	// messages are merged by being put in a row. A policy for a namespace is
	// part of the answers of all its Servers, and is encoded once for all.
	encoded []byte
}

func newAuthz(message *pb.Authz) *authz {
	return &authz{message, encode(&pb.Server{Authorizations: []*pb.Authz{message}})}
}

// equal tells whether both say the same; nil equals only nil.
func (a *authz) equal(other *authz) bool {
	if a == nil || other == nil {
		return a == other
	}
	return bytes.Equal(a.encoded, other.encoded)
}

// authzMessages are the messages of a list.
func authzMessages(list []*authz) []*pb.Authz {
	var messages []*pb.Authz
	for _, a := range list {
		messages = append(messages, a.Authz)
	}
	return messages
}

// encode encodes a message of ours; equal messages give equal bytes.
func encode(message proto.Message) []byte {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		// Only text that is no UTF-8 does not encode, and the State holds none (its function readable).
		panic(err)
	}
	return data
}
