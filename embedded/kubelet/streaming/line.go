package streaming

import (
	"bytes"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// errEnough says that no more bytes are wanted.
var errEnough = errors.New("enough was written")

// timestamps have a fixed width.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// lineWriter writes lines in the CRI format, such as
//
//	2026-01-02T03:04:05.000000006Z stdout F text
//
// as a client wants them. What is not of that format is passed over.
type lineWriter struct {
	to         *flusher
	since      time.Time
	stream     string
	timestamps bool
	// left is how many bytes are wanted; -1: all.
	left int64
	// within says that the last line was written in part, as that was all there was of it.
	within bool
}

func newLineWriter(to *flusher, options *corev1.PodLogOptions, now time.Time) *lineWriter {
	w := &lineWriter{to: to, timestamps: options.Timestamps, left: -1}
	if options.LimitBytes != nil {
		w.left = *options.LimitBytes
	}
	switch {
	case options.SinceSeconds != nil:
		w.since = now.Add(-time.Duration(*options.SinceSeconds) * time.Second)
	case options.SinceTime != nil:
		w.since = options.SinceTime.Time
	}
	if options.Stream != nil {
		switch *options.Stream {
		case corev1.LogStreamStdout:
			w.stream = "stdout"
		case corev1.LogStreamStderr:
			w.stream = "stderr"
		}
	}
	return w
}

// write writes a line, which has its end.
func (w *lineWriter) write(line []byte) error {
	stamp, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	stream, rest, _ := bytes.Cut(rest, []byte(" "))
	tag, text, ok := bytes.Cut(rest, []byte(" "))
	written, err := time.Parse(time.RFC3339Nano, string(stamp))
	if !ok || err != nil || written.Before(w.since) || w.stream != "" && w.stream != string(stream) {
		return nil
	}
	if w.timestamps && !w.within {
		if err := w.put(written.AppendFormat(nil, timeFormat+" ")); err != nil {
			return err
		}
	}
	if err := w.put(text); err != nil {
		return err
	}
	tag, _, _ = bytes.Cut(tag, []byte(":"))
	if w.within = string(tag) == "P"; w.within {
		return nil
	}
	return w.put([]byte("\n"))
}

// put writes bytes, as far as they are wanted.
func (w *lineWriter) put(text []byte) error {
	if w.left >= 0 && int64(len(text)) >= w.left {
		text = text[:w.left]
	}
	if _, err := w.to.Write(text); err != nil {
		return err
	}
	if w.left < 0 {
		return nil
	}
	if w.left -= int64(len(text)); w.left == 0 {
		return errEnough
	}
	return nil
}
