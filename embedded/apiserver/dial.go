package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// A cluster's API server dials kubelets by the names of nodes, and pods and
// Services by their addresses. Here these names and addresses lead to strangers:
// a node can have the name of a real host, and the range of cluster IPs may be
// somebody's network. What is dialled on behalf of such an object is this
// machine, or what the configuration has for nodes and pods, or nothing (B87, C6).

// limitDials makes an API server that has yet to be built dial this machine only:
// in the place of kubelets, pods and Services, also those that serve webhooks
// and APIServices. Webhooks that name a URL are dialled there, as their user says.
func (s *Server) limitDials(config *app.Config) {
	// Admission holds the same transport.
	config.KubeAPIs.ControlPlane.ProxyTransport.DialContext = s.dialHere
	kubelets, dial := &config.KubeAPIs.Extra.KubeletClientConfig, dialKubelet
	if s.config.Nodes != nil {
		kubelets.TLSClientConfig, dial = s.config.Nodes.client(), s.config.Nodes.dial
	}
	kubelets.Lookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) { return dial, nil }
}

// dialKubelet dials nothing.
func dialKubelet(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("nodes here have no kubelet to connect to")
}

// dialHere dials an address of this machine, given as such or as localhost, or of a pod.
func (s *Server) dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	if host == "localhost" {
		// Without a resolver, which might ask others.
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		if err != nil && ctx.Err() == nil {
			if conn, errIPv6 := dialer.DialContext(ctx, network, net.JoinHostPort("::1", port)); errIPv6 == nil {
				return conn, nil
			}
		}
		return conn, err
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("%s is not connected to, as nothing of this cluster has a name on the network: "+
			"of the hosts that an ExternalName Service can name only localhost is reached", address)
	}
	if !isHere(addr.Unmap()) {
		if s.config.DialPod != nil {
			return s.config.DialPod(ctx, network, address)
		}
		return nil, fmt.Errorf("%s is not connected to, as nothing of this cluster answers there: run the server on this machine, "+
			"and name its address in the url of a webhook, or localhost in an ExternalName Service", address)
	}
	return dialer.DialContext(ctx, network, address)
}

// isHere tells whether an address is one of this machine.
func isHere(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	own, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}

// needProcess are the subresources of pods that a kubelet serves from the
// processes of a pod, with what they lack here.
var needProcess = map[string]string{
	"log":         "there is no log",
	"exec":        "there is nothing to run a command in",
	"attach":      "there is nothing to attach to",
	"portforward": "there is no port to forward to",
}

// refuseProcesses answers requests that a kubelet would have to serve, whatever the client, unless
// there is somebody who serves them.
func refuseProcesses(serves func(subresource, namespace, pod, container string) error, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.APIGroup != "" {
			next.ServeHTTP(w, r)
			return
		}
		var why error
		switch _, needs := needProcess[info.Subresource]; {
		case info.Resource == "pods" && needs:
			why = serves(info.Subresource, info.Namespace, info.Name, r.URL.Query().Get("container"))
		case info.Resource == "nodes" && info.Subresource == "proxy":
			why = errors.New("nodes here are objects without a kubelet: there is nothing to ask")
		}
		if why == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !errors.As(why, new(apierrors.APIStatus)) {
			why = &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented", Message: why.Error(),
				Details: &metav1.StatusDetails{Kind: info.Resource, Name: info.Name},
			}}
		}
		responsewriters.ErrorNegotiated(why, scheme.Codecs, schema.GroupVersion{Version: info.APIVersion}, w, r)
	})
}

// withoutProcesses serves nothing. elsewhere may say where what a pod would serve is served instead.
func withoutProcesses(elsewhere func(namespace, pod string) string) func(subresource, namespace, pod, container string) error {
	return func(subresource, namespace, pod, _ string) error {
		why := "pods here are objects without a process: " + needProcess[subresource]
		if instead := elsewhere(namespace, pod); instead != "" {
			why += "; " + instead
		}
		return errors.New(why)
	}
}
