package paper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
)

// crowd has the rates of many clients of one server, or of hosts that are clients of each other.
type crowd struct {
	all     float64   // replies to all clients, per second
	clients []float64 // replies to each client, per second
	rtt     float64   // average round trip of a request, in microseconds
	burst   float64   // replies to a client, per second, between pauses of crowdPause
}

// crowdPause is how long a client must get no reply to show that its endpoint at the server is in
// no frame. The client's messages are retransmitted after at least 16 ms.
const crowdPause = 10 * time.Millisecond

// bursts adds up the time in which a client got replies, and the number of these replies.
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

// measureOn is like measureCrowd, for the hosts of a given net. The hosts start at different times
// within a millisecond.
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

// toOwnEndpoint makes each client send requests to its own endpoint at the server.
func toOwnEndpoint(host int) amTarget {
	if host == 0 {
		return amTarget{host: -1}
	}
	return amTarget{0, host - 1}
}
