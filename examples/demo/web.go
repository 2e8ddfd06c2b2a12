package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
)

// web is the front end: it asks for an emoji, and votes for it.
func web(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":8080", "address to serve on")
	emoji := flags.String("emoji", "http://emoji/", "URL of the emoji service")
	voting := flags.String("voting", "voting:80", "address of the voting service")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ballot, err := newBallot(*voting)
	if err != nil {
		return err
	}
	defer ballot.conn.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", ready)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, *emoji, http.NoBody)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set(versionHeader, res.Header.Get(versionHeader))
		if res.StatusCode != http.StatusOK {
			http.Error(w, "emoji: "+res.Status, res.StatusCode)
			return
		}
		count, err := ballot.vote(r.Context(), string(body))
		if err != nil {
			http.Error(w, "voting: "+err.Error(), http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, "%s%d votes\n", body, count)
	})
	return serveHTTP(ctx, *listen, mux)
}
