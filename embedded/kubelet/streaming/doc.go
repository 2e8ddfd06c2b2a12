// Package streaming is the server of a kubelet that the API server asks on
// behalf of kubectl logs, exec, attach, cp and port-forward.
//
// Here lives: its paths, the protocols, and reading logs. Not here: the
// processes, which are a [Backend]'s, and how the API server finds the server,
// which is package apiserver's.
package streaming
