// Command local-proxy is an application for the example: it says TEXT to whoever
// asks by HTTP.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: local-proxy ADDRESS TEXT")
		os.Exit(2)
	}
	server := &http.Server{Addr: os.Args[1], ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Args[2])
	})}
	fmt.Fprintln(os.Stderr, "local-proxy:", server.ListenAndServe())
	os.Exit(1)
}
