package apiserver

import (
	"context"
	"net/http"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// finishRequests makes a server finish requests whose client has gone, other
// than watches: they take milliseconds. Otherwise Kubernetes' etcd client
// writes a line to standard error for each, at every stop and every Ctrl-C in
// kubectl, with a logger that has no settings. Deadlines stay.
func finishRequests(config *genericapiserver.Config) {
	build := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return build(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info, ok := apirequest.RequestInfoFrom(r.Context())
			if ok && !c.LongRunningFunc(r, info) {
				ctx, cancel := finishing(r.Context())
				defer cancel()
				r = r.WithContext(ctx)
			}
			api.ServeHTTP(w, r)
		}), c)
	}
}

// finishing returns a context that ends at ctx's deadline, but not before.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	detached := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, deadline)
	}
	return detached, func() {}
}
