package apiserver

import (
	"context"
	"net/http"
	"time"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// finishGrace is how long a request whose client has gone may go on.
const finishGrace = 300 * time.Millisecond

// finishRequests gives requests whose client has gone, other than long-running
// ones, a moment to finish: they take milliseconds. Otherwise Kubernetes' etcd
// client writes a line to standard error for each, at every stop and every
// Ctrl-C in kubectl, with a logger that has no settings.
func finishRequests(longRunning apirequest.LongRunningRequestCheck) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info, ok := apirequest.RequestInfoFrom(r.Context())
			if ok && !longRunning(r, info) {
				ctx, cancel := finishing(r.Context(), finishGrace)
				defer cancel()
				r = r.WithContext(ctx)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// finishing returns a context that ends some time after ctx does. The caller
// must call cancel.
func finishing(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(detached, func() { timer.Stop() })
	})
	return detached, func() {
		forget()
		cancel()
	}
}
