package source

import (
	"bytes"
	"slices"
	"strings"
)

// byteOrderMark may begin a file, and so each part of files that were put together.
var byteOrderMark = []byte("\ufeff")

// chunk is one document of a stream and the line on which it begins.
type chunk struct {
	line int
	text []byte
}

// splitYAML cuts at the document markers, which YAML allows only at the start
// of a line.
func splitYAML(data []byte) []chunk {
	var chunks []chunk
	current := chunk{line: 1}
	start := 0
	flush := func(end int) {
		current.text = withoutMark(data[start:end])
		if !blank(current.text) {
			chunks = append(chunks, current)
		}
	}
	line := 0
	for pos := 0; pos < len(data); {
		end := bytes.IndexByte(data[pos:], '\n')
		if end < 0 {
			end = len(data)
		} else {
			end += pos + 1
		}
		line++
		text := bytes.TrimPrefix(data[pos:end], byteOrderMark)
		if marker(text, "---") || marker(text, "...") {
			flush(pos)
			// What follows the marker on its line belongs to the new document, but for tabs, which YAML
			// does not take where it counts columns.
			start = end - len(bytes.TrimLeft(text[3:], " \t"))
			current = chunk{line: line}
		}
		pos = end
	}
	flush(len(data))
	return chunks
}

// withoutMark drops a byte order mark before the content of a document.
func withoutMark(text []byte) []byte {
	content := bytes.TrimLeft(text, " \t\r\n")
	if !bytes.HasPrefix(content, byteOrderMark) {
		return text
	}
	return slices.Concat(text[:len(text)-len(content)], content[len(byteOrderMark):])
}

func marker(line []byte, mark string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(mark))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

// blank reports whether text has nothing but white space, comments and
// directives.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// firstLine is the line of the first content, from 1.
func firstLine(text []byte) int {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return n
		}
	}
	return 1
}
