package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkerd-lite/linkerd-lite/test/eventually"
)

// Under load pods come and go, their proxies being told to end at the moment
// when their endpoints are withdrawn: no request fails.
func TestScale(t *testing.T) {
	m := newMesh(t)
	var pods []*pod
	ips := []string{"10.1.0.2", "10.1.0.3", "10.1.0.4"}
	addrs := []string{"10.1.0.2:8080", "10.1.0.3:8080", "10.1.0.4:8080"}
	var seen [3]atomic.Int64
	for i, ip := range ips {
		pods = append(pods, m.pod("web", ip))
		m.serve(addrs[i], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			seen[i].Add(1)
			fmt.Fprint(w, "ok")
		}))
	}
	m.simple("web", addrs...)
	client := m.pod("client", "10.1.0.1")
	<-client.proxy.Ready()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			c := client.client(i%2 == 0)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				res, err := c.Post("http://10.96.0.1:80/", "text/plain", strings.NewReader("body"))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || string(body) != "ok" {
					t.Errorf("status %d, header %v, error %v", res.StatusCode, res.Header, err)
					return
				}
			}
		})
	}
	defer workers.Wait()
	defer close(stop)
	busy := func(which ...int) {
		var before [3]int64
		for i := range seen {
			before[i] = seen[i].Load()
		}
		eventually.Holds(t, "all pods get requests", func() bool {
			for _, i := range which {
				if seen[i].Load() < before[i]+20 {
					return false
				}
			}
			return true
		}, nil)
	}
	for range 3 {
		busy(0, 1, 2)
		m.say("get:web:80", removed(addrs[1:]...))
		for i := 1; i < 3; i++ {
			pods[i].shutdown()
			err := <-pods[i].ended
			pods[i].ended <- err
		}
		busy(0)
		for i := 1; i < 3; i++ {
			pods[i] = m.pod("web", ips[i])
			<-pods[i].proxy.Ready()
		}
		m.say("get:web:80", endpoints("web", addrs...))
	}
	busy(0, 1, 2)
}
