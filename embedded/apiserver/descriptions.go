package apiserver

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
)

//go:generate go test . -run TestDescriptions -update

// descriptionsZip holds what the server says of its built-in kinds. That is the
// same for every start of one binary, and takes seconds and a hundred megabytes
// to compute. TestDescriptions compares it with what the server would compute.
//
//go:embed descriptions.zip
var descriptionsZip []byte

// The entries of the archive. A description of version 3 is called by its path
// below /openapi. The one of version 2 in JSON comes in three pieces: up to the
// paths, from there up to the definitions, and the rest. The comment of an
// entry is the ETag of the whole.
const (
	v2Start       = "v2/1-start.json"
	v2Middle      = "v2/2-middle.json"
	v2End         = "v2/3-end.json"
	v2Protobuf    = "v2/protobuf"
	v3EntryPrefix = "v3/"
)

// descriptions reads the archive. Safe for concurrent use.
type descriptions struct{ entries map[string]*zip.File }

func openDescriptions(archive []byte) (*descriptions, error) {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("descriptions of built-in kinds: %w", err)
	}
	d := &descriptions{entries: map[string]*zip.File{}}
	for _, file := range reader.File {
		d.entries[file.Name] = file
	}
	return d, nil
}

// etag of an entry; empty if there is none.
func (d *descriptions) etag(entry string) string {
	if file, ok := d.entries[entry]; ok {
		return file.Comment
	}
	return ""
}

func (d *descriptions) read(entry string) ([]byte, error) {
	file, ok := d.entries[entry]
	if !ok {
		return nil, fmt.Errorf("no description %s", entry)
	}
	r, err := file.Open()
	if err != nil {
		return nil, fmt.Errorf("description %s: %w", entry, err)
	}
	defer r.Close()
	data := make([]byte, file.UncompressedSize64)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("description %s: %w", entry, err)
	}
	return data, nil
}

// groupVersions are the paths of built-in descriptions of version 3, such as
// apis/apps/v1, with their ETags.
func (d *descriptions) groupVersions() map[string]string {
	paths := map[string]string{}
	for name, file := range d.entries {
		if path, ok := strings.CutPrefix(name, v3EntryPrefix); ok {
			paths[path] = file.Comment
		}
	}
	return paths
}
