package apiserver

import (
	"sync"
	_ "unsafe" // for go:linkname

	"go.uber.org/zap"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // has it
)

// clientLog is what the API server's etcd clients log to: lines of JSON on standard
// error, about retries of requests whose errors their callers tell too. It is made
// when the process starts, and no option leads to it.
//
//go:linkname clientLog k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var clientLog *zap.Logger

// quietClientLog is called before the first client is made, once for all servers of the process.
var quietClientLog = sync.OnceFunc(func() { clientLog = zap.NewNop() })
