package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// httpd PORT [COUNT] is what pods run in scripts: a server that says its host name and
// who asks. It exits with 3 after COUNT answers, and when it is asked to end it first
// answers whoever waits.
func httpd() {
	left := -1
	if len(os.Args) > 2 {
		left, _ = strconv.Atoi(os.Args[2])
	}
	name, _ := os.Hostname()
	server := http.Server{Addr: ":" + os.Args[1]}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s to %s\n", name, r.Header.Get("l5d-client-id"))
		if r.URL.Path == "/ready" {
			return
		}
		if left--; left == 0 {
			time.AfterFunc(100*time.Millisecond, func() { os.Exit(3) })
		}
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- server.Shutdown(context.Background()) })
	err := server.ListenAndServe()
	if errors.Is(err, http.ErrServerClosed) && <-ended == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// httpget URL prints the status and the answer, and fails unless the status is below 400.
func httpget() {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(response.StatusCode)
	_, _ = io.Copy(os.Stdout, response.Body)
	if response.StatusCode >= 400 {
		os.Exit(1)
	}
}

// httpload URL RATE asks so often a second until its input ends, and says what became of that.
func httpload() {
	rate, _ := strconv.Atoi(os.Args[2])
	client := http.Client{Timeout: time.Minute}
	var mu sync.Mutex
	asked, results := 0, map[string]int{}
	var asking sync.WaitGroup
	ask := func() {
		result := ""
		response, err := client.Get(os.Args[1])
		if err != nil {
			result = err.Error()
		} else {
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK {
				result = fmt.Sprint(response.StatusCode, " ", response.Header, string(body), err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			fmt.Println("asking")
		}
		results[result]++
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	for {
		select {
		case <-tick.C:
			asking.Go(ask)
			continue
		case <-ended:
		}
		break
	}
	asking.Wait()
	fmt.Printf("%d asked, %d failed\n", asked, asked-results[""])
	delete(results, "")
	for result, n := range results {
		fmt.Printf("%d times: %s\n", n, result)
	}
}
