// Package apiserver runs the real Kubernetes API server inside the process.
//
// It serves on a listener that it is given, stores in an etcd that it is
// pointed to, and needs no network but loopback. Several servers can run in one
// process; what Kubernetes keeps process-wide (feature gates, metrics) they
// share.
package apiserver
