package lanai_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/endpoint/lanai"
	"github.com/bobnet-go/bobnet/internal/myrinet/channels"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

const (
	treeHosts     = 8
	treeEndpoints = 20 // of each host, nearly three times as many as a card has frames for
)

// crowd is eight hosts of a fat tree, the endpoints of which all talk to all of the others.
type crowd struct {
	*segment
	cards    []*lanai.Card
	names    [treeHosts][]endpoint.Name
	sent     [treeHosts]int
	answered [treeHosts]int
	started  int // hosts that have begun to ask
	returned int
	quiet    bool // nobody asks anything new
	done     bool
	errs     []error
}

// newCrowd makes the fat tree: two hosts at each of four switches, each of which has two cables
// up. Links are so slow that the network is what all wait for. Packets go again so soon that a
// card which cannot send has more answers to send than it has room for.
func newCrowd(t *testing.T, seed uint64) *crowd {
	c := &crowd{segment: newSegment(t, myrinet.Options{Seed: seed, Bandwidth: 1_000_000})}
	var leaves []*myrinet.Switch
	roots := []*myrinet.Switch{c.f.Switch("r0"), c.f.Switch("r1")}
	for i := range treeHosts / 2 {
		leaf := c.f.Switch(fmt.Sprint("l", i))
		leaves = append(leaves, leaf)
		for k, root := range roots {
			c.join(leaf.Port(6+k), root.Port(i))
		}
	}
	for i := range treeHosts {
		card, _ := c.card(i+1, lanai.Config{
			Channels: channels.Config{Timeout: 1_000_000},
			Card:     myrinet.CardConfig{Timing: myrinet.SBusTiming()},
			Costs:    lanai.Costs{Send: 100, Receive: 100, Resend: 100, Arrive: 50, Check: 50, Answer: 50, Answered: 50},
			Mapper:   &myrinet.MapperOptions{Period: 500 * time.Millisecond, Timeout: time.Millisecond, Seed: seed<<8 + uint64(i+1)},
		}, leaves[i/2].Port(i%2))
		c.cards = append(c.cards, card)
	}
	return c
}

// host is the process of host i. Each of its endpoints has one request under way to each
// endpoint of the other hosts.
func (c *crowd) host(i int) error {
	p, err := newParty(c.cards[i], endpoint.Config{MaxMedium: 64})
	if err != nil {
		return err
	}
	var ready [][2]int // endpoints and destinations
	eps := []*endpoint.Endpoint{p.ep}
	for len(eps) < treeEndpoints {
		ep, err := p.newEndpoint()
		if err != nil {
			return err
		}
		eps = append(eps, ep)
	}
	for k, ep := range eps {
		ep.SetHandler(hBack, func(_ endpoint.Token, args []uint32, _ []byte) {
			c.answered[i]++
			ready = append(ready, [2]int{k, int(args[0])})
		})
		ep.SetReturnHandler(func(*endpoint.Returned) { c.returned++ })
		c.names[i] = append(c.names[i], ep.Name())
	}
	for slices.ContainsFunc(c.cards, func(x *lanai.Card) bool { return x.Snapshot().Stations < treeHosts-1 }) ||
		slices.ContainsFunc(c.names[:], func(x []endpoint.Name) bool { return len(x) < treeEndpoints }) {
		if err := c.w.Sleep(10 * time.Millisecond); err != nil {
			return err
		}
	}
	for k, ep := range eps {
		for host, names := range c.names {
			for _, name := range names {
				if host == i {
					continue
				}
				dest, err := ep.MapAny(name, tag)
				if err != nil {
					return err
				}
				ready = append(ready, [2]int{k, dest})
			}
		}
	}
	c.started++
	for !c.done {
		if c.quiet {
			ready = ready[:0]
		}
		for _, x := range ready {
			c.sent[i]++
			if err := eps[x[0]].RequestBulkAsync(x[1], hEcho, nil, 0, uint32(x[1])); err != nil {
				return err
			}
		}
		ready = ready[:0]
		ctx, cancel := p.n.WithTimeout(context.Background(), time.Millisecond)
		_, err := p.b.WaitPoll(ctx)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// waiting returns how many requests have had no answer yet.
func (c *crowd) waiting() (n int) {
	for i := range c.sent {
		n += c.sent[i] - c.answered[i]
	}
	return n
}

// sleep lets time pass until something is so, and fails if that takes too many seconds.
func (c *crowd) sleep(seconds int, what string, so func() bool) {
	c.t.Helper()
	for range 100 * seconds {
		if so() || c.t.Failed() {
			return
		}
		if err := c.w.Sleep(10 * time.Millisecond); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Errorf("%d s have not been enough for %s: sent %v, answered %v", seconds, what, c.sent, c.answered)
}

// TestAllToAll: with more endpoints on every card than it has frames for, and all of them
// talking to all of the others through a network that is full, every request is answered, no
// host is left behind, and the routes stay.
func TestAllToAll(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it computes for some seconds")
	}
	seeds := uint64(1)
	if need.Full() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) { allToAll(t, seed+1) })
	}
}

func allToAll(t *testing.T, seed uint64) {
	c := newCrowd(t, seed)
	for i := range c.cards {
		c.w.Go(fmt.Sprint("host ", i), func() {
			if err := c.host(i); err != nil {
				c.errs = append(c.errs, fmt.Errorf("host %d: %w", i, err))
			}
		})
	}
	c.sleep(20, "all to begin", func() bool { return c.started == treeHosts || len(c.errs) > 0 })
	began := c.w.Now()
	c.sleep(6, "time to pass", func() bool { return c.w.Now()-began >= 5*int64(time.Second) })
	all, least := 0, c.answered[0]
	for _, n := range c.answered {
		all, least = all+n, min(least, n)
	}
	if mean := all / treeHosts; 2*least < mean || least == 0 {
		t.Errorf("a host has had %d answers, the mean is %d: %v", least, mean, c.answered)
	}
	c.quiet = true
	c.sleep(60, "all answers", func() bool { return c.waiting() == 0 })
	took := time.Duration(c.w.Now() - began)
	c.done = true
	if err := errors.Join(c.errs...); err != nil {
		t.Fatal(err)
	}
	for i, card := range c.cards {
		s := card.Snapshot()
		if s.Stations != treeHosts-1 {
			t.Errorf("card %d has routes to %d of %d others", i, s.Stations, treeHosts-1)
		}
		if m := s.Mapper; m.Leading {
			t.Logf("%d requests were answered in %v; in the first 5 s %d by host, %d at least; the mapper: %+v", c.answered, took, all/treeHosts, least, m.Stats)
		}
	}
	if c.returned > 0 {
		t.Errorf("%d messages came back", c.returned)
	}
}
