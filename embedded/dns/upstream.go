package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
)

const (
	// defaultPatience ends before the resolvers of pods ask again, which is after 5 s.
	defaultPatience = 4 * time.Second
	// rounds is how often each is asked.
	rounds = 2
	// maxForwards is how many questions may wait for others.
	maxForwards = 1000
)

// upstream are the resolvers of this machine's user.
type upstream struct {
	file string
	// port is that of resolvers.
	port string
	// patience is how long all resolvers together may take.
	patience time.Duration
	// turns has a place for each question that waits.
	turns chan struct{}

	mu sync.Mutex
	// read is the file as it was when the servers were read from it; nil: never.
	read    os.FileInfo
	servers []string
}

func newUpstream(file string) *upstream {
	return &upstream{file: file, port: "53", patience: defaultPatience, turns: make(chan struct{}, maxForwards)}
}

// known are the addresses of the resolvers that the file names now.
func (u *upstream) known() ([]string, error) {
	if u.file == "" {
		return nil, errors.New("no resolver is configured")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	info, err := os.Stat(u.file)
	if err != nil {
		return nil, err
	}
	if u.read == nil || !os.SameFile(u.read, info) || !u.read.ModTime().Equal(info.ModTime()) || u.read.Size() != info.Size() {
		config, err := mdns.ClientConfigFromFile(u.file)
		if err != nil {
			return nil, err
		}
		u.read, u.servers = info, nil
		for _, server := range config.Servers {
			u.servers = append(u.servers, net.JoinHostPort(server, u.port))
		}
	}
	if len(u.servers) == 0 {
		return nil, fmt.Errorf("%s names no resolver", u.file)
	}
	return u.servers, nil
}

// ask asks one resolver after the other, by the given network. One that will
// not or cannot tell is believed if no other can.
func (u *upstream) ask(ctx context.Context, request *mdns.Msg, network string) (*mdns.Msg, error) {
	select {
	case u.turns <- struct{}{}:
		defer func() { <-u.turns }()
	default:
		return nil, fmt.Errorf("%d questions are waiting for an answer", maxForwards)
	}
	servers, err := u.known()
	if err != nil {
		return nil, err
	}
	client := mdns.Client{Net: network, Timeout: u.patience / time.Duration(rounds*len(servers))}
	var doubtful *mdns.Msg
	var errs []error
	for range rounds {
		for _, server := range servers {
			reply, _, err := client.ExchangeContext(ctx, request, server)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				errs = append(errs, err)
			case reply.Rcode == mdns.RcodeServerFailure || reply.Rcode == mdns.RcodeRefused || reply.Rcode == mdns.RcodeNotImplemented:
				doubtful = reply
			default:
				return reply, nil
			}
		}
		if doubtful != nil {
			return doubtful, nil
		}
	}
	return nil, errors.Join(errs...)
}
