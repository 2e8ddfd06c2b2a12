package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// writePatience is how long requests wait while none finishes before they go on
// all the same: those under way may wait for them, as does a webhook that
// writes.
const writePatience = 500 * time.Millisecond

// writesAtOnce is how many requests that change something are carried out at a
// time. Each passes through a dozen goroutines (webhooks, etcd): with hundreds
// under way each of these steps waits for all the others, and a webhook's
// answer takes as long as everything together (B75).
func writesAtOnce() int { return max(8, 4*runtime.GOMAXPROCS(0)) }

// writing are the verbs of requests that wait for their turn.
var writing = sets.New("create", "update", "patch", "delete", "deletecollection")

// writeQueue lets requests that change something pass a few at a time, in the
// order in which they come.
type writeQueue struct {
	turns       chan struct{}
	patience    time.Duration
	longRunning apirequest.LongRunningRequestCheck
	// finished is when a turn last ended, in nanoseconds of Unix time.
	finished atomic.Int64
}

func (q *writeQueue) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q.waits(r) {
			turn, err := q.wait(r.Context())
			if err != nil {
				http.Error(w, fmt.Sprintf("the request ended while it waited for its turn: %v", err), http.StatusGatewayTimeout)
				return
			}
			if turn {
				defer q.finish()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// wait says whether it got a turn, which must be finished, or ran out of
// patience.
func (q *writeQueue) wait(ctx context.Context) (turn bool, err error) {
	timer := time.NewTimer(q.patience)
	defer timer.Stop()
	for {
		select {
		case q.turns <- struct{}{}:
			return true, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-timer.C:
			left := q.patience - time.Since(time.Unix(0, q.finished.Load()))
			if left <= 0 {
				return false, nil
			}
			timer.Reset(left)
		}
	}
}

func (q *writeQueue) finish() {
	q.finished.Store(time.Now().UnixNano())
	<-q.turns
}

// waits says whether r changes something on its own account. Reviews only have
// the verb of it, and what the server asks of itself, such as the address of a
// Service, is part of a request that has its turn.
func (q *writeQueue) waits(r *http.Request) bool {
	info, ok := apirequest.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || !writing.Has(info.Verb) || q.longRunning(r, info) {
		return false
	}
	if asker, ok := apirequest.UserFrom(r.Context()); ok && asker.GetName() == user.APIServerUser {
		return false
	}
	return info.APIGroup != authenticationv1.GroupName && info.APIGroup != authorizationv1.GroupName
}
