package containers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/linkerd-lite/linkerd-lite/embedded/sandbox"
)

// writeNames writes what programs resolve names by: resolv.conf, hosts, and the pod's own.
func (w *worker) writeNames(context.Context) error {
	return writeFiles(filepath.Join(w.dir, "etc"), map[string][]byte{
		"resolv.conf": []byte(w.resolvConf()), "hosts": []byte(w.hosts()), "hostname": []byte(w.hostname() + "\n"),
	})
}

// nameMounts are the mounts of what writeNames wrote.
func (w *worker) nameMounts() []sandbox.Mount {
	var mounts []sandbox.Mount
	for _, name := range []string{"resolv.conf", "hosts", "hostname"} {
		mounts = append(mounts, sandbox.Mount{Source: filepath.Join(w.dir, "etc", name), Target: "/etc/" + name})
	}
	return mounts
}

// resolvConf is that of the pod's dnsPolicy and dnsConfig. All others than None
// are answered by the cluster, which knows the rest from this machine.
func (w *worker) resolvConf() string {
	var servers, searches, options []string
	if w.pod.Spec.DNSPolicy != corev1.DNSNone {
		domain := w.runner.config.ClusterDomain
		servers = []string{w.runner.config.DNS.String()}
		searches = []string{w.pod.Namespace + ".svc." + domain, "svc." + domain, domain}
		options = []string{"ndots:5"}
	}
	if config := w.pod.Spec.DNSConfig; config != nil {
		servers = append(servers, config.Nameservers...)
		searches = append(searches, config.Searches...)
		for _, option := range config.Options {
			text := option.Name
			if option.Value != nil {
				text += ":" + *option.Value
			}
			options = append(options, text)
		}
	}
	var b strings.Builder
	if len(searches) > 0 {
		fmt.Fprintln(&b, "search", strings.Join(searches, " "))
	}
	for _, server := range servers {
		fmt.Fprintln(&b, "nameserver", server)
	}
	if len(options) > 0 {
		fmt.Fprintln(&b, "options", strings.Join(options, " "))
	}
	return b.String()
}

func (w *worker) hosts() string {
	var b strings.Builder
	fmt.Fprintln(&b, "127.0.0.1\tlocalhost")
	fmt.Fprintln(&b, "::1\tlocalhost ip6-localhost ip6-loopback")
	names := w.hostname()
	if subdomain := w.pod.Spec.Subdomain; subdomain != "" {
		names = fmt.Sprintf("%s.%s.%s.svc.%s\t%s", names, subdomain, w.pod.Namespace, w.runner.config.ClusterDomain, names)
	}
	for _, addr := range w.addresses {
		fmt.Fprintf(&b, "%s\t%s\n", addr, names)
	}
	for _, alias := range w.pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return b.String()
}

// hostname is what the pod calls itself, in at most 63 characters.
func (w *worker) hostname() string {
	name := w.pod.Spec.Hostname
	if name == "" {
		name = w.pod.Name
	}
	return strings.TrimRight(name[:min(len(name), 63)], "-.")
}
