package app

import (
	"errors"
	"testing"

	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
)

func TestSplitName(t *testing.T) {
	for in, good := range map[string]bool{"ns/pod": true, "pod": false, "/pod": false, "ns/": false, "ns/a/b": false, "": false} {
		_, _, err := splitName(in)
		if (err == nil) != good {
			t.Errorf("%q: %v", in, err)
		}
		var exit *exitError
		if err != nil && (!errors.As(err, &exit) || exit.code != exitUsage) {
			t.Errorf("%q: %v is no usage error", in, err)
		}
	}
}

func TestDialAddress(t *testing.T) {
	info := &datadir.RunInfo{DataDir: "/d", Addresses: map[string]string{"destination": "127.0.0.1:8086", "policy": "0.0.0.0:8090", "identity": "10.1.2.3:8080"}}
	for listener, want := range map[string]string{
		"destination": "127.0.0.1:8086", "policy": "10.244.0.3:8090", "identity": "10.1.2.3:8080", "shim-inbound": "",
	} {
		got, err := dialAddress(info, listener, "10.244.0.3")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", listener, got, err, want)
		}
	}
}
