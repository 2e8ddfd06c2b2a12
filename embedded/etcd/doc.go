// Package etcd runs one etcd member inside the process, on a unix socket.
package etcd
