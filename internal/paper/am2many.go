package paper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// crowd is what many clients get from one server, or each other.
type crowd struct {
	all     float64   // replies to all of them, a second
	clients []float64 // to each
	rtt     float64   // of a request on the average, in microseconds
	burst   float64   // replies to each, a second, while it gets some: between pauses of crowdPause
}

// crowdPause is how long a client gets nothing when its endpoint at the server is in no frame:
// its messages go again after 16 ms at the earliest.
const crowdPause = 10 * time.Millisecond

// bursts adds up for how long a client got replies, and how many.
type bursts struct {
	replies int
	lasted  time.Duration
	last    int64
	done    int
}

// heard records that done replies have arrived in total.
func (x *bursts) heard(now int64, done int) {
	if n := done - x.done; n > 0 {
		if d := time.Duration(now - x.last); x.done > 0 && d < crowdPause {
			x.replies += n
			x.lasted += d
		}
		x.last, x.done = now, done
	}
}

// measureCrowd makes hosts of the NOW send requests to each other for d, each with underWay
// requests in flight.
func measureCrowd(ctx context.Context, cfg amConfig, hosts, underWay int, d time.Duration, endpoints func(int) int, target func(int) amTarget, request func(h *amHost) func() error) (c crowd, err error) {
	net, err := newAMNet(ctx, cfg, topology.NOW(), hosts)
	if err != nil {
		return c, err
	}
	return measureOn(net, underWay, d, endpoints, target, request)
}

// measureOn is measureCrowd of the hosts of a net. They do not begin all at once, but within
// a millisecond.
func measureOn(net *amNet, underWay int, d time.Duration, endpoints func(int) int, target func(int) amTarget, request func(h *amHost) func() error) (c crowd, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all bursts
	err = net.run(endpoints, target, func(h *amHost, _ int) error {
		if err := h.w.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond)))); err != nil {
			return err
		}
		n, ask := h.done, request(h)
		sent, end := n, h.w.Now()+int64(d)
		var of bursts
		for h.w.Now() < end {
			if sent < h.done+underWay {
				if err := ask(); err != nil {
					return err
				}
				sent++
			} else if err := h.poll(d); err != nil {
				return err
			}
			of.heard(h.w.Now(), h.done)
		}
		all.replies, all.lasted = all.replies+of.replies, all.lasted+of.lasted
		c.clients = append(c.clients, float64(h.done-n)/d.Seconds())
		return h.await(sent)
	})
	for _, rate := range c.clients {
		c.all += rate
	}
	if len(c.clients) == 0 || c.all == 0 {
		return c, errors.Join(err, errors.New("no client got an answer"))
	}
	c.burst = float64(all.replies) / all.lasted.Seconds()
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

// even reports whether each client is within 5 % of the mean.
func (c *crowd) even() bool {
	slowest, fastest := c.spread()
	return slowest > -0.05 && fastest < 0.05
}

func shortRequests(h *amHost) func() error { return h.short }

// toOwnEndpoint has each client ask an endpoint of the server that is its own.
func toOwnEndpoint(host int) amTarget {
	if host == 0 {
		return amTarget{host: -1}
	}
	return amTarget{0, host - 1}
}
