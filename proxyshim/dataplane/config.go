package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linkerd-lite/linkerd-lite/proxyshim/meshclient"
)

// Config is what a proxy is told at its start.
type Config struct {
	Workload *meshclient.Workload
	// Inbound, Outbound and Admin are the addresses listened on, HOST:PORT.
	Inbound, Admin string
	Outbound       []string
	// InboundIPs are the pod's own; none means any.
	InboundIPs []netip.Addr
	// InboundPorts are the ports whose policies are asked for at the start.
	InboundPorts []uint16
	// DefaultPolicy is in force for a port until its policy is known.
	DefaultPolicy string
	// ClusterNetworks are those of default policies; ProfileNetworks those whose
	// addresses are asked profiles for.
	ClusterNetworks, ProfileNetworks []netip.Prefix
	// IngressMode routes requests by the header l5d-dst-override.
	IngressMode bool

	// InboundDetect and OutboundDetect are the least times to tell what a
	// connection speaks; policies may give more.
	InboundDetect, OutboundDetect   time.Duration
	InboundConnect, OutboundConnect time.Duration
	// InboundIdle and OutboundIdle are how long policies are kept that nobody uses.
	InboundIdle, OutboundIdle time.Duration
	MinRefresh, MaxRefresh    time.Duration
	// Grace is how long connections may go on after the end was asked for.
	Grace            time.Duration
	ShutdownEndpoint bool

	// Dial connects to peers, applications and the control plane.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Addresses says where a connection comes from, and where its client wanted
	// to go before it was redirected here.
	Addresses func(net.Conn) (client netip.Addr, original netip.AddrPort, err error)
	Log       *slog.Logger
}

// environment reads variables of a proxy, and remembers the errors.
type environment struct {
	getenv func(string) string
	errs   []error
}

// FromEnvironment reads what an injector writes for a proxy (proxy section 3).
func FromEnvironment(getenv func(string) string, log *slog.Logger) (Config, error) {
	workload, err := meshclient.FromEnvironment(getenv)
	if err != nil {
		return Config{}, err
	}
	e := &environment{getenv: getenv}
	c := Config{
		Workload:         workload,
		Inbound:          e.text("INBOUND_LISTEN_ADDR", "0.0.0.0:4143"),
		Admin:            e.text("ADMIN_LISTEN_ADDR", "127.0.0.1:4191"),
		Outbound:         strings.Split(e.text("OUTBOUND_LISTEN_ADDRS", e.text("OUTBOUND_LISTEN_ADDR", "127.0.0.1:4140")), ","),
		DefaultPolicy:    e.text("INBOUND_DEFAULT_POLICY", allUnauthenticated),
		InboundIPs:       parsed(e, "INBOUND_IPS", netip.ParseAddr),
		ClusterNetworks:  parsed(e, "POLICY_CLUSTER_NETWORKS", netip.ParsePrefix),
		ProfileNetworks:  parsed(e, "DESTINATION_PROFILE_NETWORKS", netip.ParsePrefix),
		InboundPorts:     slices.Concat(parsed(e, "INBOUND_PORTS", portRange)...),
		IngressMode:      e.bool("INGRESS_MODE"),
		InboundDetect:    e.duration("INBOUND_DETECT_TIMEOUT", detectTimeout),
		OutboundDetect:   e.duration("OUTBOUND_DETECT_TIMEOUT", detectTimeout),
		InboundConnect:   e.duration("INBOUND_CONNECT_TIMEOUT", 300*time.Millisecond),
		OutboundConnect:  e.duration("OUTBOUND_CONNECT_TIMEOUT", time.Second),
		InboundIdle:      e.duration("INBOUND_DISCOVERY_IDLE_TIMEOUT", 90*time.Second),
		OutboundIdle:     e.duration("OUTBOUND_DISCOVERY_IDLE_TIMEOUT", 5*time.Second),
		MinRefresh:       e.duration("IDENTITY_MIN_REFRESH", 10*time.Second),
		MaxRefresh:       e.duration("IDENTITY_MAX_REFRESH", 24*time.Hour),
		Grace:            e.duration("SHUTDOWN_GRACE_PERIOD", 2*time.Minute),
		ShutdownEndpoint: e.bool("SHUTDOWN_ENDPOINT_ENABLED"),
		Dial:             (&net.Dialer{}).DialContext,
		Addresses:        kernelAddresses,
		Log:              log,
	}
	if _, err := defaultServer(c.DefaultPolicy, c.ClusterNetworks); err != nil {
		e.errs = append(e.errs, err)
	}
	return c, errors.Join(e.errs...)
}

const prefix = "LINKERD2_PROXY_"

func (e *environment) text(name, otherwise string) string {
	return cmp.Or(strings.TrimSpace(e.getenv(prefix+name)), otherwise)
}

// fail remembers that a value is not what its variable holds.
func (e *environment) fail(name, value string, err error) {
	e.errs = append(e.errs, fmt.Errorf("%s%s is %q: %w", prefix, name, value, err))
}

func (e *environment) bool(name string) bool {
	value := e.text(name, "false")
	if value != "true" && value != "false" {
		e.fail(name, value, errors.New("want true or false"))
	}
	return value == "true"
}

// detectTimeout is how long it may take to tell what a connection speaks.
const detectTimeout = 10 * time.Second

// errDuration: durations have no fractions and only one unit.
var errDuration = errors.New("want a number with ms, s, m, h or d")

func (e *environment) duration(name string, otherwise time.Duration) time.Duration {
	value := e.text(name, "")
	if value == "" {
		return otherwise
	}
	number := strings.TrimRight(value, "dhms")
	n, err := strconv.ParseUint(number, 10, 63)
	unit, ok := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[value[len(number):]]
	if err != nil || !ok && value != "0" {
		e.fail(name, value, errDuration)
	}
	if unit > 0 && n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64 // for ever
	}
	return time.Duration(n) * unit
}

// parsed reads a list with commas.
func parsed[T any](e *environment, name string, parse func(string) (T, error)) (all []T) {
	for part := range strings.SplitSeq(e.text(name, ""), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		v, err := parse(part)
		if err != nil {
			e.fail(name, part, err)
			continue
		}
		all = append(all, v)
	}
	return all
}

// portRange reads N or N-M.
func portRange(text string) (ports []uint16, err error) {
	low, high, ok := strings.Cut(text, "-")
	if !ok {
		high = low
	}
	first, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return nil, err
	}
	last, err := strconv.ParseUint(high, 10, 16)
	if err != nil {
		return nil, err
	}
	if last < first {
		return nil, errors.New("no range of ports")
	}
	for p := max(first, 1); p <= last; p++ { // nobody is reached at port 0
		ports = append(ports, uint16(p))
	}
	return ports, nil
}
