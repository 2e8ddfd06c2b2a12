// Package containers runs the containers of pods as processes in a sandbox, as
// a kubelet does: in their order, with their environment and files, probed,
// restarted, and ended within their grace.
//
// One worker per pod has what happens to it; its status is a value that the
// kubelet writes into the API server. What a container runs is said by an
// annotation on its pod, or it is the proxy (command.go). Pods of which no
// container has anything to run are not of this package: they stay stand-ins.
//
// Not here: which pods there are, their addresses and nodes (package kubelet);
// networks and processes (package sandbox).
package containers
