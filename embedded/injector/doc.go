// Package injector gives pods what Linkerd's proxy injector gives them, as far
// as a control plane or a tool reads it.
//
// [Injector.Review] answers an admission request for a Pod or a Service with a
// patch. It never refuses an object for what it says; it fails only if the
// namespace or an owner cannot be read. Who serves it is not its business.
//
// # What a pod gets
//
//   - a container linkerd-proxy (a native sidecar unless annotated otherwise)
//     with the environment, ports and probes of the 2.20 chart, the listen
//     addresses and the identity as literals, since they are read from the spec;
//   - the labels linkerd.io/control-plane-ns, /workload-ns and /proxy-KIND;
//   - the annotations linkerd.io/inject, /created-by, /proxy-version and
//     /trust-root-sha256;
//   - every config annotation of its namespace that it does not have itself.
//
// It does not get the init container, the volumes and the life-cycle hooks that
// only matter where containers run.
//
// # Which pods
//
// linkerd.io/inject on the pod decides, else on its namespace, else
// Config.Default: enabled and ingress inject, disabled and anything else do not. Left
// out are pods of the host network, pods that have a proxy, those of
// kube-system, cert-manager and namespaces labelled
// config.linkerd.io/admission-webhooks: disabled, and those of a control plane
// or CNI plugin. automountServiceAccountToken: false is no obstacle, as the proxy's
// token comes from a volume of its own.
//
// Pods that are not injected, and all Services, still inherit
// config.linkerd.io/opaque-ports from the namespace.
package injector
