package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/linkerd-lite/linkerd-lite/internal/rulebook"
)

// Of the requests that write two are under way; the third waits, reads
// and reviews do not.
func TestWriteQueue(t *testing.T) {
	rulebook.Covers(t, "B75")
	servers := apirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIGroup: "policy.linkerd.io", Resource: "servers"}
	for _, test := range []struct {
		name   string
		change func(*apirequest.RequestInfo)
		asker  string
		waits  bool
	}{
		{"create", func(*apirequest.RequestInfo) {}, "kubernetes-admin", true},
		{"create, for a request that has its turn", func(*apirequest.RequestInfo) {}, user.APIServerUser, false},
		{"update", func(r *apirequest.RequestInfo) { r.Verb = "update" }, "kubernetes-admin", true},
		{"patch", func(r *apirequest.RequestInfo) { r.Verb = "patch" }, "kubernetes-admin", true},
		{"delete", func(r *apirequest.RequestInfo) { r.Verb = "delete" }, "kubernetes-admin", true},
		{"delete a collection", func(r *apirequest.RequestInfo) { r.Verb = "deletecollection" }, "kubernetes-admin", true},
		{"list", func(r *apirequest.RequestInfo) { r.Verb = "list" }, "kubernetes-admin", false},
		{"review of a token", func(r *apirequest.RequestInfo) { r.APIGroup = "authentication.k8s.io" }, "kubernetes-admin", false},
		{"review of an access", func(r *apirequest.RequestInfo) { r.APIGroup = "authorization.k8s.io" }, "kubernetes-admin", false},
		{"exec", func(r *apirequest.RequestInfo) { r.Subresource = "exec" }, "kubernetes-admin", false},
		{"no resource", func(r *apirequest.RequestInfo) { r.IsResourceRequest = false }, "kubernetes-admin", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				finish := make(chan struct{})
				begun := make(chan struct{}, 3)
				queue := &writeQueue{turns: make(chan struct{}, 2), patience: time.Second, longRunning: func(_ *http.Request, info *apirequest.RequestInfo) bool {
					return info.Subresource == "exec"
				}}
				handler := queue.before(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					begun <- struct{}{}
					<-finish
				}))
				serve := func(ctx context.Context, info apirequest.RequestInfo, asker string) *httptest.ResponseRecorder {
					ctx = apirequest.WithUser(ctx, &user.DefaultInfo{Name: asker})
					answer := httptest.NewRecorder()
					handler.ServeHTTP(answer, httptest.NewRequestWithContext(apirequest.WithRequestInfo(ctx, &info), http.MethodPost, "/", nil))
					return answer
				}
				for range 2 {
					go serve(t.Context(), servers, "kubernetes-admin")
				}
				synctest.Wait()
				third := servers
				test.change(&third)
				go serve(t.Context(), third, test.asker)
				synctest.Wait()
				if got, want := len(begun) == 2, test.waits; got != want {
					t.Errorf("the third waits: %v, want %v", got, want)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if test.waits {
					if answer := serve(ctx, third, test.asker); answer.Code != http.StatusGatewayTimeout {
						t.Errorf("one that ended before its turn: %d", answer.Code)
					}
				}
				finish <- struct{}{}
				synctest.Wait()
				if len(begun) != 3 {
					t.Error("the third did not get its turn")
				}
				close(finish)
			})
		})
	}
}

// What is under way may itself wait for a request that writes; one that is only
// slow keeps its turn to itself as long as others finish.
func TestWriteQueuePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &writeQueue{turns: make(chan struct{}, 1), patience: time.Second, longRunning: func(*http.Request, *apirequest.RequestInfo) bool { return false }}
		request := func() *http.Request {
			info := &apirequest.RequestInfo{IsResourceRequest: true, Verb: "create"}
			return httptest.NewRequestWithContext(apirequest.WithRequestInfo(t.Context(), info), http.MethodPost, "/", nil)
		}
		began := time.Now()
		inner := queue.before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		outer := queue.before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner.ServeHTTP(w, request()) }))
		answer := httptest.NewRecorder()
		outer.ServeHTTP(answer, request())
		if took := time.Since(began); answer.Code != http.StatusCreated || took != time.Second {
			t.Errorf("a write in a write: %d after %v", answer.Code, took)
		}
		if len(queue.turns) != 0 {
			t.Error("a turn that was never had was given back")
		}
	})
}

func TestWriteQueueSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &writeQueue{turns: make(chan struct{}, 2), patience: time.Second}
		for range 2 {
			if turn, err := queue.wait(t.Context()); !turn || err != nil {
				t.Fatalf("got %v, %v", turn, err)
			}
		}
		waited := make(chan time.Duration)
		go func() {
			began := time.Now()
			turn, err := queue.wait(t.Context())
			if turn || err != nil {
				t.Errorf("got %v, %v", turn, err)
			}
			waited <- time.Since(began)
		}()
		// One of the two goes on for ever, the other's place is taken at once.
		time.Sleep(900 * time.Millisecond)
		queue.finished.Store(time.Now().UnixNano())
		if took := <-waited; took != 1900*time.Millisecond {
			t.Errorf("waited for %v, want a second from when one last finished", took)
		}
	})
}
