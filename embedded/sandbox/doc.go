// Package sandbox is the machine that pods run on: networks, sockets and
// processes in namespaces of an ordinary user.
//
// A child process, which [Main] is the program of, is the first in user, PID,
// mount and network namespaces of its own. It makes the networks of pods, starts
// their processes, and passes sockets out: the parent listens and dials in there
// without a byte going through the child. All that runs in the sandbox ends with
// the child, and the child with its parent, whatever kills that.
//
// # The network of a pod
//
// Every link is a pair of virtual Ethernet devices between two namespaces, with
// fixed neighbours, so that nothing has to be resolved. A pod without a proxy is
// one namespace behind the sandbox's own, which forwards between pods and
// translates the addresses of Services. A meshed pod has two, as one user
// cannot tell the proxy's connections from the program's by their owner:
//
//	program's            proxy's                             sandbox's
//	eth0 POD/32 ──────── app0 169.254.1.1
//	                     eth0 169.254.1.2 ────────────────── podN, route to POD
//	                     from app0, TCP: to 127.0.0.1:4140
//	                     from eth0, TCP: to port 4143
//	                     out of eth0: as POD
//
// Where there is IPv6, too, all of that is there a second time: with fd6c:6974:6500::1 and
// ::2 instead of 169.254.1.1 and .2, and ::1 instead of 127.0.0.1.
//
// What is here knows nothing of Kubernetes.
package sandbox
