package paper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// crowd is what many clients get from one server, or each other.
type crowd struct {
	all     float64   // replies to all of them, a second
	clients []float64 // to each
	rtt     float64   // of a request on the average, in microseconds
}

// measureCrowd has hosts of the NOW ask each other for d, each with so many requests under
// way.
func measureCrowd(ctx context.Context, cfg lanai.Config, hosts, underWay int, d time.Duration, endpoints func(int) int, target func(int) amTarget, request func(h *amHost) func() error) (c crowd, err error) {
	net, err := newAMNet(ctx, cfg, myrinet.NOW(), hosts)
	if err != nil {
		return c, err
	}
	return measureOn(net, underWay, d, endpoints, target, request)
}

// measureOn is measureCrowd of the hosts of a net. They do not begin all at once, but within
// a millisecond.
func measureOn(net *amNet, underWay int, d time.Duration, endpoints func(int) int, target func(int) amTarget, request func(h *amHost) func() error) (c crowd, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	err = net.run(endpoints, target, func(h *amHost, _ int) error {
		if err := h.w.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond)))); err != nil {
			return err
		}
		n, ask := h.done, request(h)
		sent, end := n, h.w.Now()+int64(d)
		for h.w.Now() < end {
			if sent < h.done+underWay {
				if err := ask(); err != nil {
					return err
				}
				sent++
			} else if err := h.poll(d); err != nil {
				return err
			}
		}
		c.clients = append(c.clients, float64(h.done-n)/d.Seconds())
		return h.await(sent)
	})
	for _, rate := range c.clients {
		c.all += rate
	}
	if len(c.clients) == 0 || c.all == 0 {
		return c, errors.Join(err, errors.New("no client got an answer"))
	}
	c.rtt = float64(underWay*len(c.clients)) / c.all * 1e6 // by Little's law
	return c, err
}

// spread returns how far the slowest and the fastest client are from the mean, as shares.
func (c *crowd) spread() (slowest, fastest float64) {
	mean := c.all / float64(len(c.clients))
	for _, rate := range c.clients {
		slowest, fastest = min(slowest, rate/mean-1), max(fastest, rate/mean-1)
	}
	return slowest, fastest
}

func shortRequests(h *amHost) func() error { return h.short }

// toOwnEndpoint has each client ask an endpoint of the server that is its own.
func toOwnEndpoint(host int) amTarget {
	if host == 0 {
		return amTarget{host: -1}
	}
	return amTarget{0, host - 1}
}
