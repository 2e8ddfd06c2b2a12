package app

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
)

// linkerdFlags are the flags of Linkerd's destination and policy controllers
// that have no counterpart here (D section 4.3, policy-inbound 1.2). They are taken, with the values of
// Linkerd's chart, so that its command lines work; one that is given is
// answered with a warning that says why it does nothing.
type linkerdFlags struct {
	streamQueueCapacity int
	exportQueueMetrics  bool
	traceCollector      string
	kubeconfig          string

	// idle has the reason of each flag that was added.
	idle map[string]string
}

func (o *linkerdFlags) addFlags(flags *pflag.FlagSet) {
	const noQueues = "streams have no queues"
	flags.IntVar(&o.streamQueueCapacity, "stream-queue-capacity", 100, o.without("stream-queue-capacity", noQueues))
	flags.BoolVar(&o.exportQueueMetrics, "export-queue-metrics", true, o.without("export-queue-metrics", noQueues))
	flags.StringVar(&o.traceCollector, "trace-collector", "", o.without("trace-collector", "no traces are exported"))
	const ownContext = "the current context of the kubeconfig is used"
	for _, name := range []string{"cluster", "context", "user", "as"} {
		flags.String(name, "", o.without(name, ownContext))
	}
	flags.StringArray("as-group", nil, o.without("as-group", ownContext))
	flags.Duration("kube-api-response-headers-timeout", 9*time.Second, o.without("kube-api-response-headers-timeout", "reads are watches, which are begun anew when they end"))
	const ownCertificates = "webhooks have a certificate of their own"
	flags.String("server-tls-key", "", o.without("server-tls-key", ownCertificates))
	flags.String("server-tls-certs", "", o.without("server-tls-certs", ownCertificates))
	flags.Bool("admission-controller-disabled", false, o.without("admission-controller-disabled", "up --without webhooks leaves out all webhooks, and serve has none"))
	// Kubernetes has a process-wide flag of this name and another type, which cobra would take.
	flags.Bool("version", false, "print the versions of this program and of what it stands for")
}

// addKubeconfig adds that flag to a command that has no use for it.
func (o *linkerdFlags) addKubeconfig(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", o.without("kubeconfig", "this command runs an API server of its own, serve takes one"))
}

// addServe adds the flags of webhooks to a command that has none.
func (o *linkerdFlags) addServe(flags *pflag.FlagSet) {
	flags.String("webhook-addr", "127.0.0.1:0", o.without("webhook-addr", "serve has no webhooks"))
}

// without notes why a flag has no effect, and returns its usage.
func (o *linkerdFlags) without(name, why string) string {
	if o.idle == nil {
		o.idle = map[string]string{}
	}
	o.idle[name] = why
	return "without effect: " + why
}

// linkerdNames gives flags that have another name in Linkerd that name too.
func linkerdNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "addr":
		name = "destination-addr"
	case "metrics-addr":
		name = "admin-addr"
	case "grpc-addr":
		name = "policy-addr"
	case "server-addr":
		name = "webhook-addr"
	case "control-plane-namespace":
		name = "controller-namespace"
	case "identity-domain":
		name = "identity-trust-domain"
	}
	return pflag.NormalizedName(name)
}

// complete refuses what Linkerd refuses (D148).
func (o *linkerdFlags) complete() error {
	if o.streamQueueCapacity <= 0 {
		return fmt.Errorf("--stream-queue-capacity=%d: must be above zero", o.streamQueueCapacity)
	}
	return nil
}

// warn says once of each flag that was given and does nothing why that is so.
func (o *linkerdFlags) warn(flags *pflag.FlagSet, log *slog.Logger) {
	flags.Visit(func(f *pflag.Flag) {
		if why, idle := o.idle[f.Name]; idle {
			log.Warn("a flag has no effect", "flag", "--"+f.Name, "why", why)
		}
	})
}
