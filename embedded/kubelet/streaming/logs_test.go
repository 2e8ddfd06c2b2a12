package streaming

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// logBackend has the log of one container.
type logBackend struct {
	Backend
	path  string
	ended chan struct{}
	err   error
}

func (b *logBackend) Serves(string, string, string, string) error { return nil }

func (b *logBackend) Log(_, _, container string, previous bool) (string, <-chan struct{}, error) {
	if previous {
		return b.path + ".previous", b.ended, b.err
	}
	return b.path, b.ended, b.err
}

func newLogBackend(t *testing.T, text string) *logBackend {
	t.Helper()
	b := &logBackend{path: filepath.Join(t.TempDir(), "c.log"), ended: make(chan struct{})}
	appendTo(t, b.path, text)
	appendTo(t, b.path+".previous", "2026-01-01T00:00:00Z stdout F before\n")
	return b
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func serveTest(t *testing.T, b Backend) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(New(Config{Backend: b}).handler())
	t.Cleanup(server.Close)
	return server
}

func TestLogOptions(t *testing.T) {
	const text = `2026-01-01T00:00:01.5Z stdout F one
2026-01-01T00:00:02.000000001+00:00 stderr F two
no line of a log
2026-01-01T00:00:03Z stdout P thr
2026-01-01T00:00:03.1Z stdout F ee
2026-01-01T00:00:04Z stdout F:x four
2026-01-01T00:00:05Z stdout F 
2026-01-01T00:00:06Z stdout F unfin`
	b := newLogBackend(t, text)
	server := serveTest(t, b)
	for _, row := range []struct{ query, want string }{
		{"", "one\ntwo\nthree\nfour\n\n"},
		{"previous=true", "before\n"},
		{"stream=Stderr", "two\n"},
		{"stream=Stdout", "one\nthree\nfour\n\n"},
		{"stream=All", "one\ntwo\nthree\nfour\n\n"},
		{"timestamps=true&limitBytes=70", "2026-01-01T00:00:01.500000000Z one\n2026-01-01T00:00:02.000000001Z two\n"},
		{"timestamps=true&sinceTime=2026-01-01T00:00:03Z&limitBytes=37", "2026-01-01T00:00:03.000000000Z three\n"},
		{"sinceTime=2026-01-01T00:00:04Z", "four\n\n"},
		{"sinceSeconds=1", ""},
		{"limitBytes=5", "one\nt"},
		{"limitBytes=4", "one\n"},
		{"limitBytes=100", "one\ntwo\nthree\nfour\n\n"},
		{"tailLines=0", ""},
		{"tailLines=2", "\n"},
		{"tailLines=3", "four\n\n"},
		{"tailLines=7", "two\nthree\nfour\n\n"},
		{"tailLines=8", "one\ntwo\nthree\nfour\n\n"},
		{"tailLines=100", "one\ntwo\nthree\nfour\n\n"},
	} {
		t.Run(row.query, func(t *testing.T) {
			response, err := http.Get(server.URL + "/containerLogs/ns/pod/c?" + row.query)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK || string(body) != row.want {
				t.Errorf("answer is %s %q, %v", response.Status, body, err)
			}
		})
	}
}

// The last lines are found however long the lines are.
func TestTail(t *testing.T) {
	var text strings.Builder
	for n := range 200 {
		fmt.Fprintf(&text, "2026-01-01T00:00:00Z stdout F %d %s\n", n, strings.Repeat("x", n*n%7001))
	}
	b := newLogBackend(t, text.String())
	server := serveTest(t, b)
	for _, lines := range []int{1, 2, 10, 99, 199, 200} {
		response, err := http.Get(fmt.Sprintf("%s/containerLogs/ns/pod/c?tailLines=%d", server.URL, lines))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(body), "\n"); got != lines || !strings.HasPrefix(string(body), fmt.Sprint(200-lines, " ")) {
			t.Errorf("%d lines instead of %d, beginning with %.10q", got, lines, body)
		}
	}
}

func TestLogErrors(t *testing.T) {
	b := newLogBackend(t, "")
	server := serveTest(t, b)
	for _, row := range []struct {
		err  error
		code int
		text string
	}{
		{errors.New("container c waits"), http.StatusBadRequest, "container c waits"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "pod"), http.StatusNotFound, "pods \"pod\" not found"},
	} {
		b.err = row.err
		response, err := http.Get(server.URL + "/containerLogs/ns/pod/c")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != row.code || string(body) != row.text {
			t.Errorf("answer is %s %q, %v", response.Status, body, err)
		}
	}
}

// A log that is followed has what is written later, also to a file that takes its
// place, and ends when the container has.
func TestFollow(t *testing.T) {
	b := newLogBackend(t, "2026-01-01T00:00:01Z stdout F one\n")
	server := serveTest(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/containerLogs/ns/pod/c?"+url.Values{"follow": {"true"}, "tailLines": {"1"}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	expect := func(want string) {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("line is %q instead of %q, %v", line, want, err)
		}
	}
	expect("one\n")
	appendTo(t, b.path, "2026-01-01T00:00:02Z stdout F tw")
	appendTo(t, b.path, "o\n2026-01-01T00:00:03Z stdout F three\n")
	expect("two\n")
	expect("three\n")
	appendTo(t, b.path, "2026-01-01T00:00:04Z stdout F four\n")
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, b.path, "2026-01-01T00:00:05Z stdout F five\n")
	expect("four\n")
	expect("five\n")
	appendTo(t, b.path, "2026-01-01T00:00:06Z stdout F six\n")
	close(b.ended)
	expect("six\n")
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}

// Enough bytes end a log that is followed.
func TestFollowLimit(t *testing.T) {
	b := newLogBackend(t, "2026-01-01T00:00:01Z stdout F one\n")
	server := serveTest(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/containerLogs/ns/pod/c?follow=true&limitBytes=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "on" {
		t.Errorf("log is %q, %v", body, err)
	}
}
