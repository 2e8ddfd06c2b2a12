package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// claimKey holds the Holder of a store.
	claimKey = "/linkerd-lite/holder"
	// claimLife is how long a claim outlives a holder that did not give it back.
	claimLife = 10 * time.Second
	// claimPatience bounds the wait for the store's answer.
	claimPatience = 20 * time.Second
)

// Holder is an instance that uses a store.
type Holder struct {
	// ID is the same for all runs on one data directory, and only for those.
	ID      string `json:"id"`
	DataDir string `json:"dataDir"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
}

func (h Holder) String() string {
	return fmt.Sprintf("process %d on %s, whose data directory is %s", h.PID, h.Host, h.DataDir)
}

// HeldError says that another instance uses the store.
type HeldError struct {
	Servers []string
	Holder  Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the store %s is in use by %v: stop that first, or use another store; if it is dead, the store is free in %v",
		strings.Join(e.Servers, ","), e.Holder, claimLife)
}

// Claim keeps a second instance from using a store: both would have keys,
// certificates and webhooks of their own, and each would break the other's.
//
//  1. It puts a key with its Holder, under a lease of the store, if there is none
//     or if it is its own of a former run: the data directory has one process.
//  2. It keeps the lease alive, and takes the key again when the lease was lost,
//     which happens to a machine that sleeps.
//  3. At the end it gives the lease back, and the key goes with it.
type Claim struct {
	servers []string
	holder  Holder
	log     *slog.Logger
}

// NewClaim prepares a claim on the store of these servers; it does no I/O.
func NewClaim(servers []string, holder Holder, log *slog.Logger) *Claim {
	return &Claim{servers: servers, holder: holder, log: log}
}

// Run holds the store until ctx ends; it calls ready once it does. It fails
// with a HeldError when somebody else has it.
func (c *Claim) Run(ctx context.Context, ready func()) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.servers, DialTimeout: claimPatience, Logger: zap.NewNop()})
	if err != nil {
		return fmt.Errorf("client for the store %s: %w", strings.Join(c.servers, ","), err)
	}
	defer client.Close()
	held := false
	ready = sync.OnceFunc(ready)
	for {
		lease, err := c.take(ctx, client)
		if ctx.Err() != nil {
			return nil
		}
		var other *HeldError
		if err != nil && held && !errors.As(err, &other) {
			// The store does not answer for a while, as it may when it is on another host.
			c.log.Warn("the claim on the store is lost, and cannot be taken again yet", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		if err != nil {
			return err
		}
		held = true
		ready()
		c.hold(ctx, client, lease)
		if ctx.Err() != nil {
			return nil
		}
		c.log.Info("the claim on the store was lost, and is taken again")
	}
}

// take puts the key, under the lease that it returns.
func (c *Claim) take(ctx context.Context, client *clientv3.Client) (clientv3.LeaseID, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, claimPatience, errors.New("no answer"))
	defer cancel()
	failed := func(err error) (clientv3.LeaseID, error) {
		return 0, fmt.Errorf("claiming the store %s: %w", strings.Join(c.servers, ","), errors.Join(context.Cause(ctx), err))
	}
	value, err := json.Marshal(c.holder)
	if err != nil {
		return failed(err)
	}
	lease, err := client.Grant(ctx, int64(claimLife/time.Second))
	if err != nil {
		return failed(err)
	}
	put := clientv3.OpPut(claimKey, string(value), clientv3.WithLease(lease.ID))
	for last := int64(0); ; {
		answer, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(claimKey), "=", last)).Then(put).Else(clientv3.OpGet(claimKey)).Commit()
		if err != nil {
			return failed(err)
		}
		if answer.Succeeded {
			return lease.ID, nil
		}
		last = 0
		if found := answer.Responses[0].GetResponseRange().Kvs; len(found) > 0 {
			var other Holder
			if err := json.Unmarshal(found[0].Value, &other); err != nil || other.ID != c.holder.ID {
				return 0, &HeldError{Servers: c.servers, Holder: other}
			}
			last = found[0].ModRevision
		}
	}
}

// hold returns when the lease is lost, or given back as ctx has ended.
func (c *Claim) hold(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) {
	alive, err := client.KeepAlive(ctx, lease)
	if err == nil {
		for range alive {
		}
	}
	if ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := client.Revoke(ctx, lease); err != nil {
		c.log.Info("the claim on the store was not given back; it ends by itself", "in", claimLife, "error", err)
	}
}
