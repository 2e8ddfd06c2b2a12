package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"
)

// client asks each of its targets at a rate, and says once a second how they answered.
func client(ctx context.Context, flags *flag.FlagSet, args []string) error {
	rate := flags.Int("rate", 10, "requests per second to each target")
	timeout := flags.Duration("timeout", 5*time.Second, "time after which an answer is given up")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "client [flags] NAME=URL...; URLs of http, grpc (votes), or tcp (reads a greeting)")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rate <= 0 {
		return fmt.Errorf("--rate %d: want more than 0", *rate)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, arg := range flags.Args() {
		name, address, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("target %q: want NAME=URL", arg)
		}
		ask, err := newAsk(address)
		if err != nil {
			return fmt.Errorf("target %s: %w", arg, err)
		}
		t := &target{name: name, ask: ask, timeout: *timeout}
		group.Go(func() error { return t.run(ctx, *rate, os.Stdout) })
	}
	return group.Wait()
}

// target is what is asked, and the answers of this second.
type target struct {
	name    string
	ask     ask
	timeout time.Duration

	mu sync.Mutex
	// outcomes and versions have how many answers were so.
	outcomes, versions map[string]int
}

func (t *target) run(ctx context.Context, rate int, out io.Writer) error {
	asks, ctx := errgroup.WithContext(ctx)
	next, line := time.NewTicker(time.Second/time.Duration(rate)), time.NewTicker(time.Second)
	defer next.Stop()
	defer line.Stop()
	for {
		select {
		case <-next.C:
			asks.Go(func() error {
				t.once(ctx)
				return nil
			})
		case <-line.C:
			// One write is one line, whoever else writes.
			if _, err := io.WriteString(out, t.line()); err != nil {
				return err
			}
		case <-ctx.Done():
			return asks.Wait()
		}
	}
}

func (t *target) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	outcome, version := t.ask(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.outcomes == nil {
		t.outcomes, t.versions = map[string]int{}, map[string]int{}
	}
	t.outcomes[outcome]++
	if version != "" {
		t.versions[version]++
	}
}

// line is what has been counted since the last one.
func (t *target) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	words := []string{fmt.Sprintf("%-8s", t.name)}
	for _, counts := range []map[string]int{t.outcomes, t.versions} {
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			words = append(words, what+"="+strconv.Itoa(counts[what]))
		}
	}
	t.outcomes, t.versions = nil, nil
	return strings.Join(words, " ") + "\n"
}

// ask asks once, and says what came of it, and which version answered, if one did.
type ask func(ctx context.Context) (outcome, version string)

func newAsk(address string) (ask, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "http":
		return func(ctx context.Context) (string, string) { return askHTTP(ctx, address) }, nil
	case "grpc":
		ballot, err := newBallot(u.Host)
		return func(ctx context.Context) (string, string) {
			_, err := ballot.vote(ctx, "🦊")
			return status.Code(err).String(), ""
		}, err
	case "tcp":
		return func(ctx context.Context) (string, string) { return greeted(ctx, u.Host), "" }, nil
	}
	return nil, fmt.Errorf("%s is no scheme of ours", u.Scheme)
}

func askHTTP(ctx context.Context, address string) (outcome, version string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return failure(err), ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return failure(err), ""
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return failure(err), ""
	}
	return strconv.Itoa(res.StatusCode), res.Header.Get(versionHeader)
}

// greeted reads what a server says of its own accord.
func greeted(ctx context.Context, address string) string {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return failure(err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return failure(errors.Join(ctx.Err(), err))
	}
	word, _, _ := strings.Cut(line, " ")
	return word
}

// failure is a word for why there is no answer.
func failure(err error) string {
	if errors.As(err, new(*net.DNSError)) {
		return "unresolved"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "closed"
}
