package quantity

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// CheckProtobuf is CheckJSON for an object in Kubernetes' protobuf, whose type
// it need not know: a quantity is a message of nothing but one string, its
// first field. The few other messages of that shape hold names of objects.
func CheckProtobuf(data []byte) error {
	if !Suspect(data) {
		return nil
	}
	const firstField, secondField = 1<<3 | 2, 2<<3 | 2 // both of variable length
	for i, tag := range data {
		if tag != firstField {
			continue
		}
		text, length, ok := variable(data[i+1:])
		// The message around it is as long as tag, length and text.
		if ok && bytes.HasSuffix(data[:i], binary.AppendUvarint(nil, uint64(1+length+len(text)))) && numeric(text) {
			if err := Check(strings.TrimSpace(string(text))); err != nil {
				return &FieldError{Value: string(text), Err: err}
			}
		}
	}
	for key, t := range embedded {
		for rest := data; ; {
			_, after, found := bytes.Cut(rest, []byte(key))
			if !found {
				break
			}
			rest = after
			if len(after) == 0 || after[0] != secondField {
				continue
			}
			if text, _, ok := variable(after[1:]); ok {
				if err := newWalker(text).check(t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// variable is the field of variable length that data begins with, and how many
// bytes its length takes.
func variable(data []byte) (content []byte, length int, ok bool) {
	size, length := binary.Uvarint(data)
	if length <= 0 || size > uint64(len(data)-length) {
		return nil, 0, false
	}
	return data[length:][:size], length, true
}

// numeric says that text has only characters of a number.
func numeric(text []byte) bool {
	return len(bytes.Trim(text, "0123456789.+-eE ")) == 0
}
