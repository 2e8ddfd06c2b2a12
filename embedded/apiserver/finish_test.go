package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What a client that has gone asked for goes on for a while, and not for ever.
func TestFinishing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, leave := context.WithCancel(t.Context())
		ctx, cancel := finishing(request, time.Second)
		defer cancel()
		leave()
		time.Sleep(900 * time.Millisecond)
		if ctx.Err() != nil {
			t.Error("ended before its time")
		}
		time.Sleep(200 * time.Millisecond)
		if ctx.Err() == nil {
			t.Error("goes on for ever")
		}
	})
}
