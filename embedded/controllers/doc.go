// Package controllers runs the controllers of kube-controller-manager that
// manifests of applications rely on, each from when there is something to do
// for it.
package controllers
