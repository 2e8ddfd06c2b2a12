package settings

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
)

// Duration may be longer than a time.Duration can be. Zero is a Duration too:
// what may be absent is a pointer.
type Duration struct {
	seconds uint64
	nanos   uint32
}

func milliseconds(ms uint64) Duration {
	return Duration{ms / 1000, uint32(ms%1000) * uint32(time.Millisecond)}
}

// IsZero tells whether the duration is 0.
func (d Duration) IsZero() bool { return d == Duration{} }

func (d Duration) longerThan(other Duration) bool {
	return d.seconds > other.seconds || d.seconds == other.seconds && d.nanos > other.nanos
}

// Message is the duration as proxies read it, nil if there is none.
func (d *Duration) Message() *durationpb.Duration {
	if d == nil {
		return nil
	}
	return &durationpb.Duration{Seconds: int64(d.seconds), Nanos: int32(d.nanos)}
}

// Positive is nil for a duration of zero, where that means none.
func (d *Duration) Positive() *Duration {
	if d == nil || d.IsZero() {
		return nil
	}
	return d
}

// ParseDuration reads a duration as annotations hold it: one whole number with a
// unit (policy-outbound 6.3, P246).
func ParseDuration(text string) (Duration, error) {
	trimmed := strings.TrimSpace(text)
	end := strings.LastIndexAny(trimmed, "0123456789") + 1
	number, unit := trimmed[:end], trimmed[end:]
	switch {
	case strings.HasPrefix(trimmed, "-"):
		return Duration{}, fmt.Errorf("duration %q is negative", printable.Short(text))
	case end == 0:
		return Duration{}, fmt.Errorf("duration %q has no number", printable.Short(text))
	case strings.Contains(number, "."):
		return Duration{}, fmt.Errorf("duration %q is not whole", printable.Short(text))
	}
	value, err := parseUint(number, 64)
	if err != nil {
		return Duration{}, fmt.Errorf("duration %q: %w", printable.Short(text), err)
	}
	var unitMs uint64
	switch unit {
	case "":
		if value != 0 {
			return Duration{}, fmt.Errorf("duration %q has no unit", printable.Short(text))
		}
	case "ms":
		unitMs = 1
	case "s":
		unitMs = 1000
	case "m":
		unitMs = 60 * 1000
	case "h":
		unitMs = 60 * 60 * 1000
	case "d":
		unitMs = 24 * 60 * 60 * 1000
	default:
		return Duration{}, fmt.Errorf("duration %q has the unknown unit %q", printable.Short(text), printable.Short(unit))
	}
	overflow, ms := bits.Mul64(value, unitMs)
	if overflow != 0 {
		return Duration{}, fmt.Errorf("duration %q is longer than 2^64 ms", printable.Short(text))
	}
	return milliseconds(ms), nil
}

// ParseGoDuration reads a duration of a policy HTTPRoute: Go's syntax, of which a
// sign is dropped, and where nothing is zero (policy-outbound 6.4).
func ParseGoDuration(text string) (Duration, error) {
	if text == "" {
		return Duration{}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return Duration{}, errors.New(printable.Short(err.Error()))
	}
	ns := uint64(d)
	if d < 0 {
		ns = -ns
	}
	return Duration{ns / uint64(time.Second), uint32(ns % uint64(time.Second))}, nil
}

// parseUint reads a decimal number, which may have a plus sign.
func parseUint(text string, bitSize int) (uint64, error) {
	value, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, bitSize)
	if err != nil {
		return 0, fmt.Errorf("%q is no number from 0 to 2^%d-1", printable.Short(text), bitSize)
	}
	return value, nil
}

// parseFloat reads a decimal number with a fraction or an exponent.
func parseFloat(text string, bitSize int) (float64, error) {
	if strings.ContainsAny(text, "xX_") {
		return 0, fmt.Errorf("%q is no decimal number", printable.Short(text))
	}
	value, err := strconv.ParseFloat(text, bitSize)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is no number", printable.Short(text))
	}
	return value, nil
}

// parseBool reads a switch (policy-outbound 7.1, P239).
func parseBool(text string) (bool, error) {
	value, err := strconv.ParseBool(strings.TrimSpace(text))
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", printable.Short(text))
	}
	return value, nil
}

// annotations reads typed values from an object's annotations; the first one
// that is bad makes err, and later ones are not looked at.
type annotations struct {
	values map[string]string
	err    error
}

// read calls parse with the value, if there is one.
func (a *annotations) read(name string, parse func(text string) error) (present bool) {
	text, ok := a.values[name]
	if !ok || a.err != nil {
		return false
	}
	if err := parse(text); err != nil {
		a.err = fmt.Errorf("%s: %w", name, err)
		return false
	}
	return true
}

// Duration is nil without the annotation.
func (a *annotations) duration(name string) *Duration {
	var value Duration
	if a.read(name, func(text string) (err error) { value, err = ParseDuration(text); return err }) {
		return &value
	}
	return nil
}

func (a *annotations) durationOr(name string, fallback Duration) Duration {
	if value := a.duration(name); value != nil {
		return *value
	}
	return fallback
}

func (a *annotations) bool(name string) (value bool) {
	a.read(name, func(text string) (err error) { value, err = parseBool(text); return err })
	return value
}

// uintOr trims the value, unlike parseUint.
func (a *annotations) uintOr(name string, bitSize int, fallback uint64) uint64 {
	value := fallback
	a.read(name, func(text string) (err error) { value, err = parseUint(strings.TrimSpace(text), bitSize); return err })
	return value
}

func (a *annotations) floatOr(name string, bitSize int, fallback float64) float64 {
	value := fallback
	a.read(name, func(text string) (err error) { value, err = parseFloat(strings.TrimSpace(text), bitSize); return err })
	return value
}

// check makes an error of a condition that does not hold.
func (a *annotations) check(holds bool, format string, args ...any) {
	if a.err == nil && !holds {
		a.err = fmt.Errorf(format, args...)
	}
}
