// Package controllers runs the controllers of kube-controller-manager that
// manifests of applications rely on.
package controllers
