package inbound

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/printable"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"

	pb "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/inbound"
)

// probeSeparator stands between the paths of a key. No path has a line break.
const probeSeparator = "\n"

// probeKey makes one comparable value of the sorted paths of a port's probes.
func probeKey(paths []string) string { return strings.Join(paths, probeSeparator) }

// probePath is the path that a kubelet requests for a probe's path (P123). What
// counts is what stands on the wire, so the URL is made as a kubelet makes it:
// its host takes the place of one that the path has, a text that is no URL is
// a path as it stands, and Go's client escapes what a URL cannot hold. Thus
// /a|b is requested as /a%7Cb, and //x as / (G1).
func probePath(text string) (string, error) {
	target, err := url.Parse(text)
	if err != nil {
		target = &url.URL{Path: text}
	}
	target.Scheme, target.Host = "http", "pod"
	request, err := url.Parse(target.String())
	if err != nil {
		return "", fmt.Errorf("path %q: %s", printable.Short(text), printable.Short(err.Error()))
	}
	if request.Host == "" {
		return "", fmt.Errorf("path %q has no path", printable.Short(text))
	}
	return cmp.Or(request.EscapedPath(), "/"), nil
}

// probeRoute lets probes from the probe networks through, whatever the policy
// of the port is (policy-inbound 8.2, B41).
func (m *messages) probeRoute(key string) *pb.HttpRoute {
	rule := &pb.HttpRoute_Rule{}
	for _, path := range strings.Split(key, probeSeparator) {
		rule.Matches = append(rule.Matches, &http_route.HttpRouteMatch{
			Path:   &http_route.PathMatch{Kind: &http_route.PathMatch_Exact{Exact: path}},
			Method: &http_types.HttpMethod{Type: &http_types.HttpMethod_Registered_{Registered: http_types.HttpMethod_GET}},
		})
	}
	return &pb.HttpRoute{
		Metadata:       defaultMetadata("probe"),
		Authorizations: []*pb.Authz{defaultAuthorization("probe", m.probeNetworks, m.unauthenticated).Authz},
		Rules:          []*pb.HttpRoute_Rule{rule},
	}
}
