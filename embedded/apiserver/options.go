package apiserver

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

// Issuer is who signs service account tokens. It does not depend on the port,
// so that tokens stay valid over restarts.
const Issuer = "https://kubernetes.default.svc"

const (
	// watchGrace is how long shutdown waits for watches to end; without it a
	// single watch would hold shutdown for the request timeout of a minute.
	watchGrace = 150 * time.Millisecond
	// connectionGrace is how long clients have to close idle connections then.
	connectionGrace = 200 * time.Millisecond
)

// groupsOff are the API groups that manifests of applications do not use and
// that cost memory and time at start. An admission plugin that reads one of
// them is off with it: the server never gets ready while one waits for it.
var groupsOff = map[string]string{
	"resource.k8s.io/v1":                 "false",
	"flowcontrol.apiserver.k8s.io/v1":    "false",
	"node.k8s.io/v1":                     "false",
	"storagemigration.k8s.io/v1":         "false",
	"internal.apiserver.k8s.io/v1alpha1": "false",
}

// pluginsOff read groupsOff, or count on a controller that does not run here:
// what they add would stay for ever.
var pluginsOff = []string{
	"RuntimeClass",                 // node.k8s.io
	"TaintNodesByCondition",        // a taint that the node lifecycle controller removes
	"StorageObjectInUseProtection", // a finalizer that the volume protection controllers remove
	"PodGroupProtection",           // scheduling.k8s.io alpha
	"NodeDeclaredFeatureValidator",
}

// gatesOff are features for several API servers that share one store.
var gatesOff = []featuregate.Feature{
	"APIServerIdentity",
	"UnknownVersionInteroperabilityProxy",
}

func (s *Server) options(ctx context.Context) (options.CompletedOptions, error) {
	none := options.CompletedOptions{}
	o := options.NewServerRunOptions()
	address := s.config.Listener.Addr().(*net.TCPAddr)

	// Without a listener Complete leaves the certificate to us; it would make one
	// that nobody trusts, with an RSA key that takes a tenth of a second.
	o.SecureServing.BindPort = 0
	o.SecureServing.BindAddress = address.IP
	// Without an address to advertise the server looks for a default route.
	o.SecureServing.ExternalAddress = address.IP
	o.GenericServerRunOptions.AdvertiseAddress = address.IP
	// The other reconcilers refuse loopback addresses.
	o.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)

	// The default is a directory of the system.
	o.SecureServing.ServerCert.CertDirectory, o.SecureServing.ServerCert.PairName = "", ""
	var err error
	if o.Authentication.ClientCert.CAContentProvider, err = dynamiccertificates.NewStaticCAContent("client-ca", s.config.Keys.caPEM); err != nil {
		return none, fmt.Errorf("client CA: %w", err)
	}
	s.config.Keys.frontProxy.set(o)
	o.Authentication.ServiceAccounts.Issuers = []string{Issuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{s.config.Keys.accountsFile}
	o.ServiceAccountSigningKeyFile = s.config.Keys.accountsFile
	o.Authorization.Modes = []string{modes.ModeRBAC}

	o.ServiceClusterIPRanges = s.config.ServiceCIDR
	o.AllowPrivileged = true
	o.Etcd.StorageConfig.Transport.ServerList = s.config.EtcdServers
	// A member in this process answers in microseconds or not at all.
	o.Etcd.StorageConfig.HealthcheckTimeout = 2 * time.Second
	o.Etcd.StorageConfig.ReadycheckTimeout = 2 * time.Second

	// The objects of each kind would be counted at once and every minute, for
	// metrics that nobody reads. Kubernetes makes a storage of service accounts and
	// closes it at once in favour of another: a count that was under way went on
	// trying the closed client for 3 s and logged each of 100 attempts.
	o.Etcd.StorageConfig.CountMetricPollPeriod = 0

	// A cache of every kind, with its own goroutines and connections, is made for
	// thousands of clients. Here lists and watches go to etcd, which is next door.
	o.Etcd.EnableWatchCache = false
	o.Features.EnablePriorityAndFairness = false
	o.Features.EnableProfiling = false
	// Writes wait for their turn instead: see writeQueue.
	o.GenericServerRunOptions.MaxMutatingRequestsInFlight = 0
	o.APIEnablement.RuntimeConfig = map[string]string{}
	for group, value := range groupsOff {
		o.APIEnablement.RuntimeConfig[group] = value
	}
	o.Admission.GenericAdmission.DisablePlugins = pluginsOff
	if s.config.Webhooks.Address != "" {
		if o.Admission.GenericAdmission.ConfigFile, err = s.config.Webhooks.write(filepath.Dir(s.config.Keys.accountsFile)); err != nil {
			return none, err
		}
	}
	o.Admission.GenericAdmission.Decorators = append(o.Admission.GenericAdmission.Decorators, admission.DecoratorFunc(exemptOwn))
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchGrace

	completed, err := o.Complete(ctx)
	if err != nil {
		return none, err
	}
	certPEM, keyPEM, err := s.config.Keys.serving([]net.IP{address.IP})
	if err != nil {
		return none, err
	}
	if completed.SecureServing.ServerCert.GeneratedCert, err = dynamiccertificates.NewStaticCertKeyContent("serving", certPEM, keyPEM); err != nil {
		return none, fmt.Errorf("serving certificate: %w", err)
	}
	// Validation refuses port 0 even with a listener.
	completed.SecureServing.Listener = s.listener
	completed.SecureServing.BindPort = address.Port
	if errs := completed.Validate(); len(errs) > 0 {
		return none, utilerrors.NewAggregate(errs)
	}
	return completed, nil
}
