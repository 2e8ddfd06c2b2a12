package dataplane

import (
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	netpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
	outboundpb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/dataplane/verdict"
)

func testBalancer(accrual *outboundpb.FailureAccrual, addrs ...string) *balancer {
	b := newBalancer(verdict.Load{DefaultRTT: 30 * time.Millisecond, Decay: 10 * time.Second, Penalty: 5 * time.Second}, accrual, &connector{config: &Config{}})
	b.update(addOf(addrs...), true)
	return b
}

func addOf(addrs ...string) *destination.Update {
	set := &destination.WeightedAddrSet{}
	for _, a := range addrs {
		set.Addrs = append(set.Addrs, &destination.WeightedAddr{Addr: netpb.NewTcpAddress(netip.MustParseAddrPort(a))})
	}
	return &destination.Update{Update: &destination.Update_Add{Add: set}}
}

// Of two drawn the one with the smaller load gets the request: latencies count
// at their peak and are forgotten, requests under way multiply them, failures
// count as long ones.
func TestChooseByLoad(t *testing.T) {
	now := time.Now()
	b := testBalancer(nil, "10.0.0.1:80", "10.0.0.2:80")
	one, two := b.endpoints[netip.MustParseAddrPort("10.0.0.1:80")], b.endpoints[netip.MustParseAddrPort("10.0.0.2:80")]
	draw := func(int) int { return 0 }
	open := []*endpoint{one, two}
	for _, test := range []struct {
		name                   string
		loadOne, loadTwo       float64
		pendingOne, pendingTwo int
		age                    time.Duration
		want                   *endpoint
	}{
		{"the smaller latency", 0.2, 0.1, 0, 0, 0, two},
		{"of equals the first", 0.1, 0.1, 0, 0, 0, one},
		{"requests under way", 0.1, 0.15, 3, 0, 0, two},
		{"not so many", 0.1, 0.15, 0, 0, 0, one},
		{"a peak that is forgotten", 5, 0.1, 0, 0, time.Minute, one},
	} {
		one.load, two.load, one.pending, two.pending = test.loadOne, test.loadTwo, test.pendingOne, test.pendingTwo
		one.updated, two.updated = now.Add(-test.age), now
		if got := b.choose(open, now, draw); got != test.want {
			t.Errorf("%s: %v", test.name, got.addr)
		}
	}
	one.load, one.updated, one.pending = 0.01, time.Now(), 1
	one.done(time.Millisecond, &verdict.Outcome{Status: 503})
	if one.load < 5 || one.pending != 0 {
		t.Errorf("after a failure: load %v, pending %d", one.load, one.pending)
	}
}

// Messages add, remove and replace; what stays the same stays the same endpoint.
func TestBalancerFollows(t *testing.T) {
	b := testBalancer(nil, "10.0.0.1:80", "10.0.0.2:80")
	first := b.endpoints[netip.MustParseAddrPort("10.0.0.1:80")]
	b.update(addOf("10.0.0.3:80"), false)
	b.update(&destination.Update{Update: &destination.Update_Remove{Remove: &destination.AddrSet{Addrs: []*netpb.TcpAddress{netpb.NewTcpAddress(netip.MustParseAddrPort("10.0.0.2:80"))}}}}, false)
	if len(b.list) != 2 || b.endpoints[first.addr] != first {
		t.Errorf("endpoints %v", b.endpoints)
	}
	b.update(addOf("10.0.0.4:80"), true)
	if len(b.list) != 1 {
		t.Errorf("after a new call: %v", b.endpoints)
	}
	b.update(&destination.Update{Update: &destination.Update_NoEndpoints{NoEndpoints: &destination.NoEndpoints{}}}, false)
	if b.available() {
		t.Error("without endpoints it is available")
	}
}

func TestBreaker(t *testing.T) {
	backoff := &outboundpb.ExponentialBackoff{MinBackoff: durationpb.New(time.Second), MaxBackoff: durationpb.New(3 * time.Second)}
	b := newBreaker(&outboundpb.FailureAccrual{Kind: &outboundpb.FailureAccrual_ConsecutiveFailures_{ConsecutiveFailures: &outboundpb.FailureAccrual_ConsecutiveFailures{MaxFailures: 2, Backoff: backoff}}})
	now := time.Now()
	record := func(failed bool) { b.begin(); b.record(now, failed, 0) }
	record(true)
	record(false)
	record(true)
	if !b.open(now) {
		t.Fatal("shut although no two failed in a row")
	}
	for n, wait := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		record(true)
		if b.open(now.Add(wait-1)) || !b.open(now.Add(wait)) {
			t.Fatalf("shut %d lasts until %v, want %v", n, b.shutUntil.Sub(now), wait)
		}
		now = now.Add(wait)
	}
	b.begin()
	if b.open(now) {
		t.Error("more than one request on probation")
	}
	b.abandon()
	record(false)
	if !b.open(now) {
		t.Error("shut after a success")
	}

	b = newBreaker(&outboundpb.FailureAccrual{Kind: &outboundpb.FailureAccrual_Unified_{Unified: &outboundpb.FailureAccrual_Unified{
		SuccessRateThreshold: 0.8, Decay: durationpb.New(10 * time.Second), MinRequests: 5, Backoff: backoff,
	}}})
	for _, failed := range []bool{true, false, false, true} {
		record(failed)
	}
	if !b.open(now) {
		t.Error("shut by too few requests")
	}
	record(false)
	if record(true); b.open(now) {
		t.Error("open although half of the requests failed")
	}
}

// A retry budget gives a share of the requests, and some each second.
func TestBudget(t *testing.T) {
	b, now := &budget{}, time.Now()
	b.set(&destination.RetryBudget{RetryRatio: 0.5, MinRetriesPerSecond: 0, Ttl: durationpb.New(10 * time.Second)})
	if b.withdraw(now) {
		t.Error("a retry without requests")
	}
	for range 4 {
		b.deposit(now)
	}
	given := 0
	for b.withdraw(now) {
		given++
	}
	if given != 2 {
		t.Errorf("four requests give %d retries, want two", given)
	}
	b.set(&destination.RetryBudget{MinRetriesPerSecond: 1, Ttl: durationpb.New(10 * time.Second)})
	now = now.Add(1500 * time.Millisecond)
	if first, second := b.withdraw(now), b.withdraw(now); !first || second {
		t.Errorf("after a second and a half: one retry %v, two %v", first, second)
	}
}
