package settings

import (
	"strings"
	"testing"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/outbound"
	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// The grammars of annotations (policy-outbound 6, 7).

func TestParseBool(t *testing.T) {
	for text, want := range map[string]bool{"True": true, "TRUE": true, "1": true, "t": true, "T": true, "true": true, " true\t": true,
		"False": false, "FALSE": false, "0": false, "f": false, "F": false, "false": false, " 0 ": false} {
		rulebook.Run(t, "P239 "+text, func(t *testing.T) {
			if got, err := parseBool(text); err != nil || got != want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	for _, text := range []string{"yes", "maybe", "", " ", "tRUE", "01"} {
		rulebook.Run(t, "P239 bad "+text, func(t *testing.T) {
			if got, err := parseBool(text); err == nil {
				t.Errorf("%v, no error", got)
			}
			if load, err := ParsePenalty(map[string]string{PenalizeFailuresAnnotation: text}); err == nil || load != nil {
				t.Errorf("load is %v, error %v", load, err)
			}
		})
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]Duration{
		"10s": {10, 0}, "500ms": {0, 5e8}, "5m": {300, 0}, "2h": {7200, 0}, "1d": {86400, 0}, "0": {}, "0s": {}, "0ms": {}, " 10s\n": {10, 0}, "+3s": {3, 0},
		"106752d": {106752 * 86400, 0}, "18446744073709551615ms": {18446744073709551, 615e6}, "007s": {7, 0},
	} {
		rulebook.Run(t, "P246 "+text, func(t *testing.T) {
			if got, err := ParseDuration(text); err != nil || got != want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	for _, text := range []string{"0.5s", "0.0s", "0.5m", "5", "100", "999999999999999999d", "10x", "", " ", "s", "-5s", "-0.5s", "-0s", "1h30m", "1 s", "18446744073709551616ms", "10S", "++1s"} {
		rulebook.Run(t, "P246 bad "+text, func(t *testing.T) {
			if got, err := ParseDuration(text); err == nil {
				t.Errorf("%v, no error", got)
			}
		})
	}
}

// Durations of policy HTTPRoutes (policy-outbound 6.4).
func TestParseGoSpan(t *testing.T) {
	for text, want := range map[string]Duration{"": {}, "0": {}, "1h30m": {5400, 0}, "-1.5s": {1, 5e8}, "+.5s": {0, 5e8}, "3µs": {0, 3000}, "3μs": {0, 3000}, "2us5ns": {0, 2005}} {
		if got, err := ParseGoDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"5", "1d", "x", " 1s", "1 s"} {
		if got, err := ParseGoDuration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseFloat(t *testing.T) {
	for _, text := range []string{"0x1p-2", "1_0", "", "a"} {
		if got, err := parseFloat(text, 64); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseConditions(t *testing.T) {
	for _, list := range []string{"", "5xx,", ",5xx", "5xx, 404", "99", "600", "500-499", "99-200", "500-", "-", "4xx", "200-300-400", "5xx;404"} {
		rulebook.Run(t, "P206 "+list, func(t *testing.T) {
			if got, err := parseStatusRanges(list); err == nil {
				t.Errorf("%v, no error", got)
			}
		})
	}
	for _, list := range []string{"", "internal,", "Internal ", "deadline_exceeded", "unknown"} {
		if err := parseGRPCConditions(list, &pb.GrpcRoute_Retry_Conditions{}); err == nil {
			t.Errorf("%q: no error", list)
		}
	}
}

// Whatever is in annotations, an error is short and comes at once.
func TestErrorsAreShort(t *testing.T) {
	rulebook.Covers(t, "F7, F11")
	long := strings.Repeat("9", 1<<20)
	for _, value := range []string{long, long + "s", "1e" + long, "0." + long, strings.Repeat("x,", 1<<19), long + "-" + long} {
		values := map[string]string{PenalizeFailuresAnnotation: "true"}
		for _, name := range []string{
			TimeoutRequestAnnotation, RetryLimitAnnotation, RetryTimeoutAnnotation, RetryHTTPAnnotation, RetryGRPCAnnotation, MaxFailuresAnnotation, MaxPenaltyAnnotation,
			JitterRatioAnnotation, ThresholdAnnotation, WindowAnnotation, MinRequestsAnnotation, HonorRetryAfterAnnotation, PenaltyAnnotation,
		} {
			values[name] = value
		}
		for _, mode := range []string{"unified", value} {
			values[FailureAccrualAnnotation] = mode
			_, timeouts := ParseTimeouts(values)
			_, http := ParseHTTPRetry(values)
			_, grpc := ParseGRPCRetry(values)
			_, accrual := ParseFailureAccrual(values)
			_, penalty := ParsePenalty(values)
			for _, err := range []error{timeouts, http, grpc, accrual, penalty, CheckHonorRetryAfter(values)} {
				if err == nil || len(err.Error()) > 500 {
					t.Errorf("%.20s...: %.600v", value, err)
				}
			}
		}
	}
}

func FuzzParseSpan(f *testing.F) {
	for _, text := range []string{"10s", "1h30m", "-1s", "0", "1.5s", " 1ms ", "18446744073709551616ms", "1µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseDuration(text); err == nil && (s.Message().Seconds < 0 || s.nanos >= 1e9) {
			t.Errorf("%q: %+v", text, s)
		}
		if s, err := ParseGoDuration(text); err == nil && (s.Message().Seconds < 0 || s.nanos >= 1e9) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func FuzzParseRetries(f *testing.F) {
	for _, list := range []string{"5xx,404", "gateway-error", "200-299", "", "internal,unavailable"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		ranges, err := parseStatusRanges(list)
		for _, r := range ranges {
			if err != nil || r.Start < 100 || r.End > 599 || r.Start > r.End {
				t.Errorf("%q: %v", list, ranges)
			}
		}
		if err := parseGRPCConditions(list, &pb.GrpcRoute_Retry_Conditions{}); err == nil && list == "" {
			t.Error("nothing is a condition")
		}
	})
}
