package app

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/destination"
	"github.com/linkerd-lite/linkerd-lite/internal/proxyapi/meta"
	netapi "github.com/linkerd-lite/linkerd-lite/internal/proxyapi/net"
)

// cannedDestination answers a few fixed authorities.
type cannedDestination struct {
	destination.UnimplementedDestinationServer
}

func weighted(ip uint32, pod string) *destination.WeightedAddr {
	return &destination.WeightedAddr{
		Addr:         &netapi.TcpAddress{Ip: &netapi.IPAddress{Ip: &netapi.IPAddress_Ipv4{Ipv4: ip}}, Port: 8080},
		Weight:       10000,
		MetricLabels: map[string]string{"pod": pod},
		TlsIdentity: &destination.TlsIdentity{Strategy: &destination.TlsIdentity_DnsLikeIdentity_{
			DnsLikeIdentity: &destination.TlsIdentity_DnsLikeIdentity{Name: "web.emojivoto.serviceaccount.identity.linkerd.cluster.local"},
		}},
	}
}

func (cannedDestination) Get(request *destination.GetDestination, stream destination.Destination_GetServer) error {
	add := func(service, namespace string, addrs ...*destination.WeightedAddr) error {
		return stream.Send(&destination.Update{Update: &destination.Update_Add{Add: &destination.WeightedAddrSet{
			Addrs: addrs, MetricLabels: map[string]string{"service": service, "namespace": namespace},
		}}})
	}
	var err error
	switch request.GetPath() {
	case "web-svc.emojivoto.svc.cluster.local:80":
		err = add("web-svc", "emojivoto", weighted(0x0AF40003, "web-2"), weighted(0x0AF40002, "web-1"))
	case "db.data.svc.cluster.local":
		err = add("db", "data", weighted(0x01020304, "data/db-0"))
	case "quiet.ns.svc.cluster.local:80":
	case "brief.ns.svc.cluster.local:80":
		pod := weighted(0x0AF40002, "ns/brief-1")
		_ = add("brief", "ns", pod)
		_ = stream.Send(&destination.Update{Update: &destination.Update_Remove{Remove: &destination.AddrSet{Addrs: []*netapi.TcpAddress{pod.GetAddr()}}}})
		_ = stream.Send(&destination.Update{Update: &destination.Update_NoEndpoints{NoEndpoints: &destination.NoEndpoints{Exists: true}}})
		return stream.Send(&destination.Update{Update: &destination.Update_NoEndpoints{NoEndpoints: &destination.NoEndpoints{}}})
	default:
		return status.Error(codes.NotFound, "Service nope.ns not found")
	}
	if err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (cannedDestination) GetProfile(_ *destination.GetDestination, stream destination.Destination_GetProfileServer) error {
	return stream.Send(&destination.DestinationProfile{
		FullyQualifiedName: "web.n.svc.cluster.local",
		RetryBudget:        &destination.RetryBudget{RetryRatio: 0.2, MinRetriesPerSecond: 10, Ttl: durationpb.New(10e9)},
		ParentRef: &meta.Metadata{Kind: &meta.Metadata_Resource{Resource: &meta.Resource{
			Group: "core", Kind: "Service", Name: "web", Namespace: "n", Port: 80,
		}}},
	})
}

func TestDiagnostics(t *testing.T) {
	web, db := "web-svc.emojivoto.svc.cluster.local:80", "db.data.svc.cluster.local"
	for _, test := range []struct {
		name                 string
		args                 []string
		stdout, stderr, fail string
	}{
		{name: "table", args: []string{"endpoints", web}, stdout: `NAMESPACE   IP           PORT   POD     SERVICE
emojivoto   10.244.0.2   8080   web-1   web-svc.emojivoto
emojivoto   10.244.0.3   8080   web-2   web-svc.emojivoto
`},
		{name: "a table per namespace, aligned alike", args: []string{"ep", web, db}, stdout: `NAMESPACE   IP           PORT   POD     SERVICE
data        1.2.3.4      8080   db-0    db.data

NAMESPACE   IP           PORT   POD     SERVICE
emojivoto   10.244.0.2   8080   web-1   web-svc.emojivoto
emojivoto   10.244.0.3   8080   web-2   web-svc.emojivoto
`},
		{name: "wide", args: []string{"endpoints", "-o", "wide", db}, stdout: `NAMESPACE   IP        PORT   POD    SERVICE   IDENTITY
data        1.2.3.4   8080   db-0   db.data   web.emojivoto.serviceaccount.identity.linkerd.cluster.local
`},
		{name: "json", args: []string{"endpoints", "-o", "json", db}, stdout: `[
  {
    "namespace": "data",
    "ip": "1.2.3.4",
    "port": 8080,
    "pod": "db-0",
    "service": "db.data",
    "weight": 10000,
    "labels": {
      "pod": "data/db-0"
    }
  }
]
`},
		{name: "no endpoints", args: []string{"endpoints", "quiet.ns.svc.cluster.local:80"}, stderr: "No endpoints found.\n"},
		{name: "no endpoints as json", args: []string{"endpoints", "-o", "json", "quiet.ns.svc.cluster.local:80"}, stdout: "[]\n"},
		{name: "the first error ends it", args: []string{"endpoints", db, "nope.ns.svc.cluster.local"}, fail: "Destination API error: Service nope.ns not found"},
		{
			name: "each message of a stream until it ends", args: []string{"endpoints", "--watch", "-o", "wide", "brief.ns.svc.cluster.local:80"},
			stdout: `add      brief.ns.svc.cluster.local:80   10.244.0.2:8080   brief-1   web.emojivoto.serviceaccount.identity.linkerd.cluster.local
remove   brief.ns.svc.cluster.local:80   10.244.0.2:8080
none     brief.ns.svc.cluster.local:80   the Service exists
none     brief.ns.svc.cluster.local:80   the Service does not exist
`, fail: "the control plane ended the stream for brief.ns.svc.cluster.local:80",
		},
		{name: "an error ends watching", args: []string{"endpoints", "-w", "nope.ns.svc.cluster.local"}, fail: "Destination API error: Service nope.ns not found"},
		{name: "unknown format", args: []string{"endpoints", "-o", "xml", db}, fail: `output format "xml"`},
		{name: "profile", args: []string{"profile", "web.n.svc.cluster.local:80"}, stdout: `{
  "fully_qualified_name": "web.n.svc.cluster.local",
  "retry_budget": {
    "retry_ratio": 0.2,
    "min_retries_per_second": 10,
    "ttl": {
      "seconds": 10
    }
  },
  "parent_ref": {
    "Kind": {
      "Resource": {
        "group": "core",
        "kind": "Service",
        "name": "web",
        "namespace": "n",
        "port": 80
      }
    }
  }
}
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			dial := dialCanned(t, func(server *grpc.Server) { destination.RegisterDestinationServer(server, cannedDestination{}) })
			cmd := &cobra.Command{Use: "diagnostics"}
			cmd.AddCommand(newDiagnosticsEndpointsCommand(dial), newDiagnosticsProfileCommand(dial))
			runCanned(t, cmd, test.args, &stdout, &stderr, test.fail)
			if diff := cmp.Diff(test.stdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stderr, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}
