package diagnostics

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/grpc_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_route"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/http_types"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
)

// metadataText names an object or a default, the kind without its group.
func metadataText(m *meta.Metadata) string {
	r := m.GetResource()
	switch {
	case r == nil && m.GetDefault() == "default":
		return "default"
	case r == nil:
		return "default " + m.GetDefault()
	}
	text := r.GetKind() + " " + r.GetName()
	if r.GetNamespace() != "" {
		text = r.GetKind() + " " + r.GetNamespace() + "/" + r.GetName()
	}
	if r.GetPort() != 0 {
		text += fmt.Sprint(":", r.GetPort())
	}
	return text
}

// matchesText joins the matches of a rule; no match is every request.
func matchesText[M any](matches []M, text func(M) string) string {
	if len(matches) == 0 {
		return "all"
	}
	var texts []string
	for _, match := range matches {
		texts = append(texts, text(match))
	}
	return strings.Join(texts, " or ")
}

func httpMatchText(m *http_route.HttpRouteMatch) string {
	var parts []string
	if method := m.GetMethod(); method != nil {
		parts = append(parts, methodText(method))
	}
	switch path := m.GetPath().GetKind().(type) {
	case *http_route.PathMatch_Exact:
		parts = append(parts, path.Exact)
	case *http_route.PathMatch_Prefix:
		parts = append(parts, strings.TrimSuffix(path.Prefix, "/")+"/*")
	case *http_route.PathMatch_Regex:
		parts = append(parts, "~"+path.Regex)
	}
	for _, query := range m.GetQueryParams() {
		if query.GetRegex() != "" {
			parts = append(parts, "?"+query.GetName()+"~"+query.GetRegex())
		} else {
			parts = append(parts, "?"+query.GetName()+"="+query.GetExact())
		}
	}
	parts = append(parts, headersText(m.GetHeaders())...)
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

func grpcMatchText(m *grpc_route.GrpcRouteMatch) string {
	var parts []string
	if rpc := m.GetRpc(); rpc.GetService() != "" || rpc.GetMethod() != "" {
		parts = append(parts, orStar(rpc.GetService())+"/"+orStar(rpc.GetMethod()))
	}
	parts = append(parts, headersText(m.GetHeaders())...)
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, " ")
}

func orStar(text string) string {
	if text == "" {
		return "*"
	}
	return text
}

func methodText(m *http_types.HttpMethod) string {
	if m.GetUnregistered() != "" {
		return m.GetUnregistered()
	}
	return m.GetRegistered().String()
}

func headersText(headers []*http_route.HeaderMatch) []string {
	var parts []string
	for _, header := range headers {
		if header.GetRegex() != "" {
			parts = append(parts, header.GetName()+":~"+header.GetRegex())
		} else {
			parts = append(parts, header.GetName()+":"+string(header.GetExact()))
		}
	}
	return parts
}

func hostsText(hosts []*http_route.HostMatch) string {
	var texts []string
	for _, host := range hosts {
		if host.GetSuffix() != nil {
			texts = append(texts, suffixText(host.GetSuffix().GetReverseLabels()))
		} else {
			texts = append(texts, host.GetExact())
		}
	}
	return strings.Join(texts, ",")
}

func suffixText(reverseLabels []string) string {
	labels := slices.Clone(reverseLabels)
	slices.Reverse(labels)
	return "*." + strings.Join(labels, ".")
}

// Filters of HTTP and gRPC routes, inbound and outbound.

func requestModifierText(m *http_route.RequestHeaderModifier) string {
	return "request headers " + modifierText(m.GetSet(), m.GetAdd(), m.GetRemove())
}

func responseModifierText(m *http_route.ResponseHeaderModifier) string {
	return "response headers " + modifierText(m.GetSet(), m.GetAdd(), m.GetRemove())
}

func modifierText(set, add *http_types.Headers, remove []string) string {
	var parts []string
	for _, header := range set.GetHeaders() {
		parts = append(parts, header.GetName()+"="+string(header.GetValue()))
	}
	for _, header := range add.GetHeaders() {
		parts = append(parts, header.GetName()+"+="+string(header.GetValue()))
	}
	for _, name := range remove {
		parts = append(parts, "-"+name)
	}
	return strings.Join(parts, " ")
}

// redirectText writes the parts of the location that are replaced.
func redirectText(r *http_route.RequestRedirect) string {
	text := fmt.Sprintf("redirect %d to ", r.GetStatus())
	if r.GetScheme() != nil {
		text += strings.ToLower(r.GetScheme().GetRegistered().String()) + "://"
	}
	text += orStar(r.GetHost())
	if r.GetPort() != 0 {
		text += fmt.Sprint(":", r.GetPort())
	}
	switch path := r.GetPath().GetReplace().(type) {
	case *http_route.PathModifier_Full:
		text += path.Full
	case *http_route.PathModifier_Prefix:
		text += strings.TrimSuffix(path.Prefix, "/") + "/*"
	}
	return text
}

func timeoutsText(t *http_route.Timeouts) []string {
	var parts []string
	for _, timeout := range []struct {
		name  string
		value *durationpb.Duration
	}{{"request", t.GetRequest()}, {"response", t.GetResponse()}, {"idle", t.GetIdle()}} {
		if timeout.value != nil {
			parts = append(parts, timeout.name+" timeout "+durationText(timeout.value))
		}
	}
	return parts
}

// durationText is time.Duration's form without the zeros at its end.
func durationText(d *durationpb.Duration) string {
	text := d.AsDuration().String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
