package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A shim that dies ends the process: /ready says so first, and the last line
// names it.
func TestShimDies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	var o clusterOptions
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse([]string{"--ephemeral", "--random-ports", "--without=controllers,kubelet,injector"}); err != nil {
		t.Fatal(err)
	}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	captureLibraryLogs(log)
	i, err := newInstance(t.Context(), &o, log, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := i.close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- i.run(ctx) }()
	select {
	case <-i.supervisor.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	// ready is the status of /ready, 0 when nobody answers.
	ready := func() int {
		response, err := http.Get("http://" + i.info.Addresses["admin"] + "/ready")
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := ready(); got != http.StatusOK {
		t.Fatalf("/ready has status %d before anything happens", got)
	}
	i.listeners["destination"].Close()
	said := ready()
	for said == http.StatusOK {
		said = ready()
	}
	if said != http.StatusInternalServerError {
		t.Errorf("/ready has status %d while all stops, want 500", said)
	}
	if err = <-ended; err == nil || !strings.HasPrefix(err.Error(), "core: proxy shim: port 8086: ") {
		t.Errorf("the last line is %v", err)
	}
}
