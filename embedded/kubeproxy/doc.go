// Package kubeproxy leads connections of pods that have no proxy from the
// addresses of Services on to endpoints, as kube-proxy does on a node.
//
// What leads where is a view of the State; here is the loop that tells the
// sandbox of differences.
package kubeproxy
