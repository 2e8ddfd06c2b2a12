// Package kubelet stands in for scheduler and kubelets: it gives every pod a
// node, addresses and a status.
//
// Whether anything runs in a pod is a Runner's to say (package containers):
// those that have nothing to run, and all without a Runner, stand in for pods that
// would, and are Running as soon as they have their address.
//
// # What it does
//
// Nodes: it registers the configured nodes (default: one named "lite", no
// zone), and treats every other Node object in the API as one of its own, so
// that a Node in a manifest needs no process behind it. A node gets an address
// from the end of the pod ranges, a Ready condition, and loses the not-ready
// taint that admission put on it. There are no heartbeats: an idle kubelet
// writes nothing.
//
// Pods: a pod without a node is bound to the fitting node with the fewest pods
// (spec.nodeName, nodeSelector, required node affinity, taints and cordon are
// honoured; resources, inter-pod affinity and topology spread are not).
// It then gets addresses from the pod ranges, IPv4 first, and becomes Running
// and Ready. A pod that nothing fits stays Pending with PodScheduled=False and
// the reason. A pod of the host network has its node's addresses. Volumes are
// never looked at. A deleted pod goes at once.
//
// A pod's addresses are kept in its status, so they survive restarts; when a
// pod is gone its addresses rest for a minute before they are given away again,
// also across a restart (the ledger in Config.DataDir remembers).
//
// # Whose status it is
//
// A pod or node whose status another field manager wrote is left alone for
// good: a status in a manifest, or from kubectl --subresource=status, wins.
// Conditions that other controllers normally add to pods (DisruptionTarget, and
// those named by spec.readinessGates) do not count. Only the end of a deleted
// pod is still confirmed.
//
// # Annotations on pods
//
//	lite.linkerd.io/status: manual
//	    Never bind this pod and never write its status: whoever sets the
//	    annotation does. Whatever applies a manifest that has a status sets it
//	    together with the object, before the status follows, so that the two
//	    are not mixed.
//	lite.linkerd.io/ready: "false"
//	    The pod runs but is not ready. "true" is the default.
//	lite.linkerd.io/process: IP:PORT
//	    The pod is a process on this host, listening at IP:PORT. IP becomes the
//	    pod's address, so it may be neither loopback nor link-local (the API
//	    server refuses those as endpoint addresses), nor unspecified, multicast or
//	    broadcast; PORT must be the containerPort of a container, as Services
//	    find the process through it. Otherwise the pod stays Pending, with an
//	    event and a condition that say why. Two such pods on one IP
//	    make lookups by that IP ambiguous (D135): give each its own, for example
//	    one that `ip addr add 10.255.255.1/32 dev lo` made.
//	lite.linkerd.io/run-for: DURATION
//	    A pod with restartPolicy Never or OnFailure succeeds this long (Go
//	    syntax) after it became Running. Without the annotation it is 1s for
//	    pods of Jobs, for those that Helm waits for (annotation helm.sh/hook),
//	    and for those that do not look like a server, as no container besides
//	    the proxy has a port or a probe. All others run until they are deleted.
//
// All are read again whenever the pod changes, so they may be set and
// removed at any time.
package kubelet
