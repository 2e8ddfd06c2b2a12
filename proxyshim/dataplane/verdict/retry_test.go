package verdict_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

func TestRetryable(t *testing.T) {
	http1 := func(conditions string) *verdict.Retry {
		rule, _, _ := plan(t, `http1 { `+named("r", `rules { `+first+` retry { max_retries: 1 conditions { `+conditions+` } } }`)+` }`).HTTP1.Routes.Find(request("GET", "h", "/", ""))
		return rule.Retry
	}
	grpc := func(conditions string) *verdict.Retry {
		rule, _, _ := plan(t, `grpc { `+named("r", `rules { `+first+` retry { max_retries: 1 conditions { `+conditions+` } } }`)+` }`).HTTP2.Routes.Find(request("POST", "h", "/s/m", ""))
		return rule.Retry
	}
	classes := func(classes string) *verdict.Retry {
		p := text(t, &destination.DestinationProfile{}, `fully_qualified_name: "p" retry_budget { ttl { seconds: 10 } } routes { condition { all { } } is_retryable: true `+classes+` }`)
		policy := text(t, &outbound.OutboundPolicy{}, `metadata { default: "t" } protocol { http1 { } }`)
		rule, _, _ := verdict.NewPlan(verdict.Sources{Policy: policy, Profile: p}).HTTP1.Routes.Find(request("GET", "h", "/", ""))
		return rule.Retry
	}
	for _, test := range []struct {
		name    string
		retry   *verdict.Retry
		status  int
		grpc    string
		trailer string
		want    bool
	}{
		{"in a range", http1(`status_ranges { start: 500 end: 599 }`), 599, "", "", true},
		{"in no range", http1(`status_ranges { start: 500 end: 502 } status_ranges { start: 504 end: 504 }`), 503, "", "", false},
		{"no conditions", http1(""), 500, "", "", false},
		{"gRPC's in the header", grpc(`unavailable: true`), 200, "14", "", true},
		{"gRPC's in the trailer", grpc(`deadine_exceeded: true`), 200, "", "4", true},
		{"another of gRPC", grpc(`unavailable: true`), 200, "13", "", false},
		{"HTTP's under gRPC", grpc(`unavailable: true`), 503, "", "", false},
		{"a profile's failure", classes(""), 500, "", "", true},
		{"a profile's failure by gRPC", classes(""), 200, "2", "", true},
		{"a class that is no failure", classes(`response_classes { condition { status { min: 500 max: 501 } } }`), 500, "", "", false},
		{"a class that is one", classes(`response_classes { condition { all { matches { status { min: 400 max: 499 } } matches { not { status { min: 404 max: 404 } } } } } is_failure: true }`), 418, "", "", true},
		{"a range without an end is in no class", classes(`response_classes { condition { status { min: 400 } } is_failure: true }`), 418, "", "", false},
	} {
		header, trailer := http.Header{}, http.Header{}
		header.Set("Grpc-Status", test.grpc)
		trailer.Set("Grpc-Status", test.trailer)
		if got := test.retry.Retryable(verdict.NewOutcome(test.status, header, trailer)); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	b := verdict.Backoff{Min: 25 * time.Millisecond, Max: 250 * time.Millisecond, Jitter: 1}
	for n, want := range map[int]time.Duration{1: 25, 2: 50, 4: 200, 5: 250, 1000: 250} {
		if got := b.Wait(n, 0); got != want*time.Millisecond {
			t.Errorf("try %d waits %v, want %d ms", n, got, want)
		}
	}
	if got := b.Wait(1, 0.5); got != 37500*time.Microsecond {
		t.Errorf("with jitter: %v", got)
	}
}

func TestRedirect(t *testing.T) {
	for _, test := range []struct{ filter, want string }{
		{`host: "other"`, "http://other:8080/a/b?q"},
		{`host: "other" port: 81`, "http://other:81/a/b?q"},
		{`port: 80`, "http://web/a/b?q"},
		{`scheme { registered: HTTPS }`, "https://web:8080/a/b?q"},
		{`path { full: "/x" }`, "http://web:8080/x"},
		{`path { prefix: "/x" }`, "http://web:8080/x/b?q"},
		{`path { prefix: "/" }`, "http://web:8080/b?q"},
		{``, ""}, // it is there already
	} {
		rules := named("r", `rules { matches { path { prefix: "/a" } } filters { redirect { `+test.filter+` } } `+first+` }`)
		asked := request("GET", "web:8080", "/a/b", "q")
		rule, match, _ := plan(t, `http1 { `+rules+` }`).HTTP1.Routes.Find(asked)
		answer := verdict.Apply(rule.Filters, asked, match, http.Header{}, nil)
		got := ""
		if answer != nil {
			got = answer.Location
		}
		if got != test.want {
			t.Errorf("%s leads to %q, want %q", test.filter, got, test.want)
		}
	}
}

func TestFailureRatio(t *testing.T) {
	filters := []verdict.Filter{{Failure: &verdict.Failure{Status: 500, Ratio: &http_route.Ratio{Numerator: 1, Denominator: 4}}}}
	for drawn, want := range map[uint32]bool{0: true, 1: false, 3: false} {
		answer := verdict.Apply(filters, nil, verdict.Match{}, nil, func(n uint32) uint32 {
			if n != 4 {
				t.Errorf("drawn of %d", n)
			}
			return drawn
		})
		if got := answer != nil; got != want {
			t.Errorf("drawn %d: fails %v, want %v", drawn, got, want)
		}
	}
}
