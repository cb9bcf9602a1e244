package paper

import (
	"context"
	"errors"
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

// crowdTime is for how long the requests of a crowd are counted.
const crowdTime = 20 * time.Millisecond

// measureCrowd has hosts of the NOW ask each other for crowdTime, each with so many
// requests under way.
func measureCrowd(ctx context.Context, cfg lanai.Config, hosts, underWay int, endpoints func(int) int, target func(int) amTarget, request func(h *amHost) func() error) (c crowd, err error) {
	net, err := newAMNet(ctx, cfg, myrinet.NOW(), hosts)
	if err != nil {
		return c, err
	}
	err = net.run(endpoints, target, func(h *amHost, _ int) error {
		n, ask := h.done, request(h)
		sent, end := n, h.w.Now()+int64(crowdTime)
		for h.w.Now() < end {
			if sent < h.done+underWay {
				if err := ask(); err != nil {
					return err
				}
				sent++
			} else if err := h.poll(crowdTime); err != nil {
				return err
			}
		}
		c.clients = append(c.clients, float64(h.done-n)/crowdTime.Seconds())
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
