package diagnostics

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// Endpoint is one row; its JSON form is that of Linkerd's command.
type Endpoint struct {
	Namespace string                         `json:"namespace"`
	IP        string                         `json:"ip"`
	Port      uint32                         `json:"port"`
	Pod       string                         `json:"pod"`
	Service   string                         `json:"service"`
	Weight    uint32                         `json:"weight"`
	HTTP2     *destination.Http2ClientParams `json:"http2,omitempty"`
	Labels    map[string]string              `json:"labels"`

	identity string
}

type endpointKey struct {
	service, ip string
	port        uint32
}

func addEndpoints(found map[endpointKey]Endpoint, set *destination.WeightedAddrSet) {
	service := set.GetMetricLabels()["service"] + "." + set.GetMetricLabels()["namespace"]
	for _, addr := range set.GetAddrs() {
		ip, port := addr.GetAddr().GetIp(), addr.GetAddr().GetPort()
		pod := addr.GetMetricLabels()["pod"]
		if _, name, ok := strings.Cut(pod, "/"); ok {
			pod = name
		}
		found[endpointKey{service, ipText(ip), port}] = Endpoint{
			Namespace: set.GetMetricLabels()["namespace"],
			IP:        ipText(ip),
			Port:      port,
			Pod:       pod,
			Service:   service,
			Weight:    addr.GetWeight(),
			HTTP2:     addr.GetHttp2(),
			Labels:    addr.GetMetricLabels(),
			identity:  identityText(addr.GetTlsIdentity()),
		}
	}
}

func ipText(ip *net.IPAddress) string {
	if addr := ip.Addr(); addr.IsValid() {
		return addr.String()
	}
	return ""
}

func identityText(id *destination.TlsIdentity) string {
	if dns := id.GetDnsLikeIdentity(); dns != nil {
		return dns.GetName()
	}
	return id.GetUriLikeIdentity().GetUri()
}

func sortEndpoints(found map[endpointKey]Endpoint) []Endpoint {
	return slices.SortedFunc(maps.Values(found), func(a, b Endpoint) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Service, b.Service),
			compareAddresses(a.IP, b.IP),
			cmp.Compare(a.Port, b.Port),
			cmp.Compare(a.Pod, b.Pod),
		)
	})
}

// compareAddresses orders addresses by their numbers: names of pods are drawn.
func compareAddresses(a, b string) int {
	parsedA, errA := netip.ParseAddr(a)
	parsedB, errB := netip.ParseAddr(b)
	if errA != nil || errB != nil {
		return cmp.Compare(a, b)
	}
	return parsedA.Compare(parsedB)
}

// EndpointWriter returns the writer for an output format.
func EndpointWriter(format string) (func(out, errOut io.Writer, endpoints []Endpoint) error, error) {
	switch format {
	case "table", "":
		return func(out, errOut io.Writer, endpoints []Endpoint) error {
			return writeEndpointTables(out, errOut, endpoints, false)
		}, nil
	case "wide":
		return func(out, errOut io.Writer, endpoints []Endpoint) error {
			return writeEndpointTables(out, errOut, endpoints, true)
		}, nil
	case "json":
		return func(out, _ io.Writer, endpoints []Endpoint) error {
			if endpoints == nil {
				endpoints = []Endpoint{}
			}
			return WriteJSON(out, endpoints)
		}, nil
	}
	return nil, fmt.Errorf("output format %q: use table, wide or json", format)
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// writeEndpointTables prints a table per namespace, columns aligned over all of them.
func writeEndpointTables(out, errOut io.Writer, endpoints []Endpoint, wide bool) error {
	if len(endpoints) == 0 {
		_, err := fmt.Fprintln(errOut, "No endpoints found.")
		return err
	}
	header := []string{"NAMESPACE", "IP", "PORT", "POD", "SERVICE"}
	if wide {
		header = append(header, "IDENTITY")
	}
	rows := make([][]string, len(endpoints))
	widths := make([]int, len(header))
	for i, e := range endpoints {
		rows[i] = []string{e.Namespace, e.IP, fmt.Sprint(e.Port), e.Pod, e.Service}
		if wide {
			rows[i] = append(rows[i], e.identity)
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
				break
			}
			fmt.Fprintf(&b, "%-*s   ", widths[i], cell)
		}
		b.WriteByte('\n')
	}
	for i, row := range rows {
		if i == 0 || row[0] != rows[i-1][0] {
			if i > 0 {
				b.WriteByte('\n')
			}
			line(header)
		}
		line(row)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
