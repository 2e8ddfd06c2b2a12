// Package proxyenv computes the environment with which a Linkerd proxy runs on
// this machine as a pod of the mesh.
package proxyenv
