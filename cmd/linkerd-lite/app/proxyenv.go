package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/linkerd-lite/linkerd-lite/embedded/diagnostics"
	"github.com/linkerd-lite/linkerd-lite/internal/datadir"
	"github.com/linkerd-lite/linkerd-lite/internal/linkerd"
	"github.com/linkerd-lite/linkerd-lite/proxyshim/proxyenv"
)

const proxyEnvHelp = `Print the complete environment with which a real linkerd2-proxy runs on this
machine as a pod of the instance: the pod is injected, so its manifest or
namespace has linkerd.io/inject: enabled. Key, certificate request and token are
written into the data directory first, for the environment points to them.

A proxy asks the kernel where each connection wanted to go, and it refuses to
connect to loopback addresses. So it needs a network in which the addresses of
pods and services exist and connections are tracked. ` + "`linkerd-lite sandbox`" + ` makes
one without privileges (Linux), and everything runs inside it:

  linkerd-lite sandbox -- linkerd-lite up DIR -- sh
  # in that shell: the application as web-0, on the pod's own address
  my-app --listen "$(linkerd-lite kubectl get pod web-0 -o jsonpath='{.status.podIP}'):8080" &
  # its proxy; no client uses its outbound listener
  (eval "$(linkerd-lite proxy-env default/web-0 --outbound-addr 127.0.0.1:24140)"; exec linkerd2-proxy) &
  # a client's proxy: it takes what arrives at port 4140, whatever the address
  (eval "$(linkerd-lite proxy-env default/curl-0 --outbound-addr 0.0.0.0:4140)"; exec linkerd2-proxy) &
  # a Service with port 4140 leads through the client's proxy
  curl http://SERVICE_IP:4140/

By hand, the sandbox is:

  unshare -Urn sh -c '
    ip link set lo up
    ip route add local 10.96.0.0/12  dev lo   # addresses of services
    ip route add local 10.244.0.0/16 dev lo   # addresses of pods
    ip route add local fd00:10:96::/112 dev lo
    ip route add local fd00:10:244::/64 dev lo
    ip addr add fd00:10:244::ffff/128 dev lo nodad   # for clients to come from
    sysctl -qw net.ipv6.ip_nonlocal_bind=1
    nft add table inet lite
    nft "add chain inet lite ct { type filter hook output priority 0 ; }"
    nft add rule inet lite ct ct state new accept   # turns tracking on
    exec linkerd-lite up DIR -- sh'

All pods share that network: two proxies need two outbound addresses, clients
come from the address that they dial, so policies by network mean nothing there,
and policies by identity work. With a container engine, -o docker gives
arguments that are quoted for a shell to read:

  eval "docker run --network host $(linkerd-lite proxy-env NS/POD -o docker) IMAGE"

With up --enable-ipv6, destination sends clients of dual-stack Services to IPv6
addresses, and the proxy listens on that of its pod. For clients of both families
give the pod ports of its own, by the annotations config.linkerd.io/inbound-port
and admin-port, and listen on all addresses: --listen-ip ::

Variables of the pod whose names no shell can set, or whose values hold control
characters, are left out with a warning: a manifest must not run commands here.`

func newProxyEnvCommand() *cobra.Command {
	var dataDir, format, dir, listen, outbound string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "proxy-env NS/POD",
		Short: "Print the environment with which a real proxy runs as a pod",
		Long:  proxyEnvHelp,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, err := splitName(args[0])
			if err != nil {
				return err
			}
			if _, err := proxyenv.Format(format, nil); err != nil {
				return usage(err)
			}
			info, client, err := instanceClient(dataDir)
			if err != nil {
				return err
			}
			pod, err := getPod(cmd.Context(), client, namespace, name)
			if err != nil {
				return err
			}
			anchors, err := diagnostics.TrustAnchors(cmd.Context(), client, cmp.Or(pod.Labels[linkerd.ControlPlaneNSLabel], linkerd.DefaultControlPlaneNamespace))
			if err != nil {
				return err
			}
			in := proxyenv.Input{Pod: pod, Anchors: anchors, Outbound: outbound}
			if listen != "" {
				if in.Listen, err = netip.ParseAddr(listen); err != nil {
					return &exitError{code: exitUsage, err: fmt.Errorf("--listen-ip=%s: not an IP address", listen)}
				}
			}
			// The proxy may run in another directory than this command.
			if in.Dir, err = filepath.Abs(cmp.Or(dir, proxyenv.Dir(info.DataDir, namespace, name))); err != nil {
				return fmt.Errorf("directory of the identity: %w", err)
			}
			for listener, address := range map[string]*string{"destination": &in.Destination, "policy": &in.Policy, "identity": &in.Identity} {
				if *address, err = dialAddress(info, listener, pod.Status.PodIP); err != nil {
					return err
				}
			}
			vars, leftOut, err := proxyenv.Environment(in)
			if err != nil {
				return err
			}
			for _, notice := range leftOut {
				fmt.Fprintf(cmd.ErrOrStderr(), "linkerd-lite: pod %s/%s: %s\n", namespace, name, notice)
			}
			if err := writeCredentials(cmd.Context(), client, pod, lifetime, in.Dir); err != nil {
				return err
			}
			text, err := proxyenv.Format(format, vars)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	addDataDirFlag(cmd.Flags(), &dataDir)
	cmd.Flags().StringVarP(&format, "output", "o", "env", "env (for eval in a shell), json or docker")
	cmd.Flags().StringVar(&dir, "dir", "", "directory of key.p8, csr.der and token (default: proxies/NS/POD in the data directory)")
	cmd.Flags().StringVar(&listen, "listen-ip", "", "address on which the proxy takes connections (default: the pod's; its IPv6 address with up --enable-ipv6)")
	cmd.Flags().StringVar(&outbound, "outbound-addr", "", "IP:PORT of the outbound listener, or two with a comma (default: the pod's own, 127.0.0.1:4140)")
	cmd.Flags().DurationVar(&lifetime, "token-lifetime", podTokenLifetime, "lifetime of the token, at least 10m")
	return cmd
}

// writeCredentials writes what the environment points to: the pod's key, certificate request and token.
func writeCredentials(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, lifetime time.Duration, dir string) error {
	identity, err := proxyenv.IdentityOf(pod)
	if err != nil {
		return err
	}
	token, err := proxyenv.Token(ctx, client.CoreV1().ServiceAccounts(pod.Namespace), accountOf(pod), pod, lifetime)
	if err != nil {
		return err
	}
	if err := proxyenv.WriteIdentity(dir, identity); err != nil {
		return err
	}
	return proxyenv.WriteToken(dir, token)
}

// dialAddress is where a proxy reaches one of the instance's APIs. On an
// address for all interfaces plaintext is refused, and a proxy speaks plaintext
// to loopback: then it dials the address of its pod, which is local too.
func dialAddress(info *datadir.RunInfo, listener, podIP string) (string, error) {
	address, ok := info.Addresses[listener]
	if !ok {
		return "", fmt.Errorf("the instance in %s does not serve the %s API", info.DataDir, listener)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", fmt.Errorf("address of the %s API: %w", listener, err)
	}
	if at.Addr().IsUnspecified() && podIP != "" {
		return net.JoinHostPort(podIP, fmt.Sprint(at.Port())), nil
	}
	return address, nil
}
