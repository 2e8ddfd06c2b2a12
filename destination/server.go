package destination

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/state"
	"github.com/linkerd-lite/linkerd-lite/internal/stream"
	"github.com/linkerd-lite/linkerd-lite/internal/view"
)

// Config is what a Server needs.
type Config struct {
	State *state.State
	Graph *view.Graph
	// Links may be nil: no cluster is linked.
	Links Links
	// Stopping is closed when streams must end, which they do with status OK
	// (D89). Nil means never.
	Stopping <-chan struct{}
	// Log may be nil.
	Log *slog.Logger
	// Registerer gets the metrics of D section 4.1; nil means no metrics.
	Registerer prometheus.Registerer

	linkerd.Settings
}

// Server is the Destination service. Its streams need a gRPC server with the
// codec of internal/grpcserver.
type Server struct {
	pb.UnimplementedDestinationServer

	config   Config
	log      *slog.Logger
	mesh     *mesh
	links    Links
	follower *stream.Follower
	local    *clusterViews
	zones    *view.Set[string, string]
	members  *view.Set[federationKey, federation]
	metrics  *metrics
	profiles *profiles
}

var _ pb.DestinationServer = (*Server)(nil)

// New returns a server. It does no I/O and starts nothing; its views live in
// the graph of config.
func New(config Config) (*Server, error) {
	if config.EnableIPv6 && !config.EnableEndpointSlices {
		return nil, errors.New("IPv6 needs EndpointSlices: enable-ipv6 and enable-endpoint-slices=false exclude each other")
	}
	s := &Server{config: config, log: config.Log, links: config.Links}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.links == nil {
		s.links = noLinks{}
	}
	s.follower = stream.NewFollower(stream.Config{Stopping: config.Stopping, ClientEndsOK: true, Log: s.log})
	var err error
	if s.mesh, err = newMesh(config, s.log); err != nil {
		return nil, err
	}
	s.zones = newZoneSet(config.Graph)
	s.members = newFederationSet(config.Graph)
	s.local = newClusterViews(clusterViewsConfig{
		cluster:        state.LocalCluster,
		state:          config.State,
		graph:          config.Graph,
		mesh:           s.mesh,
		trustDomain:    config.TrustDomain,
		endpointSlices: config.EnableEndpointSlices,
		ipv6:           config.EnableIPv6,
	})
	if s.profiles, err = newProfiles(config, s.mesh, s.local); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(config.Registerer, s); err != nil {
		return nil, err
	}
	return s, nil
}

// mesh is the local configuration that decides how endpoints of any cluster
// are spoken to (D section 1.12). Immutable.
type mesh struct {
	controllerNamespace string
	opaquePorts         linkerd.PortSet
	h2Upgrade           bool
	// forceOpaqueTransport sends traffic to meshed endpoints through their inbound port.
	forceOpaqueTransport bool
	zoneWeights          bool
	// http2 may be nil.
	http2 *pb.Http2ClientParams
}

func newMesh(config Config, log *slog.Logger) (*mesh, error) {
	m := &mesh{
		controllerNamespace: config.ControlPlaneNamespace,
		opaquePorts:         config.DefaultOpaquePorts.PortSet,
		h2Upgrade:           config.EnableH2Upgrade,
		zoneWeights:         config.ExtEndpointZoneWeights,
	}
	switch config.OutboundTransportMode {
	case linkerd.TransportHeader:
		m.forceOpaqueTransport = true
	case linkerd.TransportTransparent, "":
	default:
		log.Error("unknown outbound transport mode, transparent is used", "mode", config.OutboundTransportMode)
	}
	if config.MeshedHTTP2ClientParams != "" {
		m.http2 = &pb.Http2ClientParams{}
		if err := json.Unmarshal([]byte(config.MeshedHTTP2ClientParams), m.http2); err != nil {
			return nil, fmt.Errorf("HTTP/2 client parameters %q: %w", config.MeshedHTTP2ClientParams, err)
		}
	}
	return m, nil
}
