package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// emoji answers with its version and the name of its pod, well or badly.
func emoji(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":8080", "address to serve on")
	version := flags.String("version", "v1", "version to answer with")
	every := flags.Uint64("fail-every", 0, "answer every n-th request with 500; 0: none")
	delay := flags.Duration("delay", 0, "time that each answer takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pod, err := os.Hostname()
	if err != nil {
		return err
	}
	var asked atomic.Uint64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", ready)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(versionHeader, *version)
		select {
		case <-time.After(*delay):
		case <-r.Context().Done():
			return
		}
		if *every > 0 && asked.Add(1)%*every == 0 {
			http.Error(w, "out of emoji", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "🦊", *version, pod)
	})
	return serveHTTP(ctx, *listen, mux)
}
