package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// batchCredits are enough for some batches of the usual payloads.
const batchCredits = 64

// TestBatchFlood: two endpoints flood each other with requests of all sizes, most of
// which go in batches, at any loss. All are handled, those that are not placed by
// windows of their own in the order of sending, none has its data changed while a
// handler looks at it, and every credit comes back.
func TestBatchFlood(t *testing.T) {
	many := 500
	if !need.Full() {
		many = 100
	}
	seeds(t, many, func(seed uint64) error {
		rng := rand.New(rand.NewPCG(seed, 1))
		opts := sim.Options{Seed: seed, Loss: 0.3 * rng.Float64() * rng.Float64(), Dup: 0.02, Reorder: 0.05, Corrupt: 0.01}
		credits := []endpoint.Credits{{Short: batchCredits}, {Short: 40}, {Short: 200}, {Short: 16, Medium: 48, Bulk: 2}}
		cfg := endpoint.Config{Credits: credits[seed%uint64(len(credits))], PeerTimeout: time.Minute}
		sizes := batchSizes
		if seed%5 == 0 { // some are longer than a batch
			cfg.MaxMedium, sizes = endpoint.MaxMediumLimit, []int{10, 4096, 4096, 4096, 30_000, 40_000, endpoint.MaxMediumLimit}
		}
		w := newWorld(opts)
		var sides [2]*batcher
		for i := range sides {
			sides[i] = &batcher{world: w, sizes: sizes, rng: rand.New(rand.NewPCG(seed, uint64(i)+2)), name: fmt.Sprint("side ", i)}
		}
		for i, b := range sides {
			w.node(b.name, cfg, func(n *endpoint.Node) error { return b.run(n, sides[1-i]) })
		}
		return w.run()
	})
}

// batcher is one side of TestBatchFlood.
type batcher struct {
	*party
	*world
	rng      *rand.Rand
	sizes    []int
	name     string
	posted   []uint32
	handled  []uint32 // of the other's
	answered int
	finished bool
	bulk     uint64 // bytes that it has sent to windows of their own
	wrong    error
}

const batchCount = 300 // requests of a side

// batchSizes are the payloads; longSize does not fit into a message, and is placed
// when its turn comes.
var batchSizes = []int{0, 1, 60, 700, 1990, 2000, 3000, 4096, 4096, 4096, 4096, 4096, longSize}

const longSize = 9000

func (b *batcher) run(n *endpoint.Node, other *batcher) (err error) {
	if b.party, err = newParty(n); err != nil {
		return err
	}
	b.ep.SetSegment(make([]byte, 80_000))
	b.ep.SetHandler(hEcho, b.echo)
	b.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { b.answered++ })
	b.board[b.name] = b.ep.Name()
	if err := b.ep.Map(0, b.find(other.name), 5); err != nil {
		return err
	}
	asked := 0
	for id := range uint32(batchCount) {
		if id%4 > 0 {
			asked++
		}
		if err := b.send(id); err != nil {
			return err
		}
		if b.rng.IntN(60) == 0 {
			b.Sleep(time.Duration(b.rng.IntN(300)) * time.Microsecond)
		}
	}
	if err := b.until(n, "all answers", func() bool { return b.answered == asked }); err != nil {
		return fmt.Errorf("%d of %d answered: %w", b.answered, asked, err)
	}
	b.drain(n)
	batched := written(n)
	for b.finished = true; !other.finished; batched = max(batched, written(n)) { // while the connection is there
		b.rest(n)
	}
	if s := n.Stats(); s.Strays+s.Violations > 0 || len(b.returned) > 0 {
		return fmt.Errorf("%v; %d came back", s, len(b.returned))
	}
	if !slices.Equal(b.handled, other.posted) {
		return fmt.Errorf("handled %v, want %v", b.handled, other.posted)
	}
	if batched < 2*b.bulk {
		return fmt.Errorf("%d bytes were written, hardly in batches", batched)
	}
	return b.wrong
}

// rest polls for a while.
func (p *party) rest(n *endpoint.Node) {
	ctx, cancel := n.NIC().WithTimeout(bg, 10*time.Millisecond)
	defer cancel()
	p.b.WaitPoll(ctx)
}

// drain polls until no request is under way; those that are not answered end
// silently.
func (p *party) drain(n *endpoint.Node) {
	for n.Snapshot().Bundles[0].Endpoints[0].Translations[0].UnderWay > 0 {
		p.rest(n)
	}
}

// written returns how many bytes peers have written to a node's memory.
func written(n *endpoint.Node) (bytes uint64) {
	for _, v := range n.NIC().Snapshot().VIs {
		bytes += v.RDMABytes
	}
	return bytes
}

func (b *batcher) send(id uint32) error {
	size := b.sizes[b.rng.IntN(len(b.sizes))]
	data := pattern(make([]byte, size), int(id))
	switch {
	case size == longSize:
		b.bulk += uint64(size)
		return b.ep.RequestBulk(bg, 0, hEcho, data, 0, id, uint32(size))
	case size == 0:
		b.posted = append(b.posted, id)
		return b.ep.Request(bg, 0, hEcho, id, 0)
	case id%7 == 0:
		b.posted = append(b.posted, id)
		return b.ep.RequestBulk(bg, 0, hEcho, data, 10_000, id, uint32(size))
	}
	b.posted = append(b.posted, id)
	return b.ep.RequestMedium(bg, 0, hEcho, data, id, uint32(size))
}

// echo takes its time with some requests, and then looks at their data again.
func (b *batcher) echo(t endpoint.Token, args []uint32, data []byte) {
	id, want := args[0], pattern(make([]byte, args[1]), int(args[0]))
	check := func(when string) {
		if !slices.Equal(data, want) {
			b.wrong = fmt.Errorf("the data of request %d, %d bytes, is damaged %s its handler", id, len(want), when)
		}
	}
	check("before")
	if len(data) != longSize {
		b.handled = append(b.handled, id)
	}
	switch id % 4 {
	case 1:
		t.Reply(hReply)
	case 2:
		t.ReplyMedium(hReply, data[:min(len(data), 4096)])
	case 3:
		t.ReplyBulk(hReply, make([]byte, 5000), 10_000)
	}
	if id%23 == 0 && len(data) != longSize && id%7 > 0 { // in place, and not in the segment
		b.Sleep(time.Duration(id) * 5 * time.Microsecond)
		check("after")
	}
}

// TestBatchLossy: a lost frame costs a stream of batches little more than itself.
func TestBatchLossy(t *testing.T) {
	stream := func(loss float64) (took int64) {
		const count = 1000
		w := newWorld(sim.Options{Seed: 1, Loss: loss, Delay: 5 * time.Microsecond, Bandwidth: 10_000_000_000})
		answered := 0
		w.pair(endpoint.Config{Credits: endpoint.Credits{Short: batchCredits}}, func(s *party) {
			s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
		}, func(n *endpoint.Node, c *party) error {
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answered++ })
			data, began := make([]byte, 4096), w.Now()
			for range count {
				if err := c.ep.RequestMedium(bg, 0, hEcho, data); err != nil {
					return err
				}
			}
			defer func() { took = w.Now() - began }()
			return c.until(n, "the answers", func() bool { return answered == count })
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
		return took
	}
	if without, with := stream(0), stream(0.01); with > without*3/2 {
		t.Errorf("with one frame of a hundred lost it takes %v, without loss %v", time.Duration(with), time.Duration(without))
	}
}

// TestBatchAlone: answers that come one by one give windows back as well.
func TestBatchAlone(t *testing.T) {
	w := newWorld(sim.Options{})
	answered := 0
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: batchCredits}}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			w.Sleep(200 * time.Microsecond)
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answered++ })
		data := make([]byte, 4096)
		for sent := 3; sent < 100; sent += 3 { // of three, two share a batch
			for range 3 {
				if err := c.ep.RequestMedium(bg, 0, hEcho, data); err != nil {
					return err
				}
			}
			if err := c.until(n, "the answers", func() bool { return answered == sent }); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestBatchFull: a server that does not poll gets what there are credits for and not
// more, however that is cut into batches; and when it polls at last, it gets all of
// it, though the client does nothing but wait, or closes its node.
func TestBatchFull(t *testing.T) {
	for name, end := range map[string]func(n *endpoint.Node, c *party) error{
		"waits":  func(n *endpoint.Node, c *party) error { c.drain(n); return nil },
		"closes": func(n *endpoint.Node, _ *party) error { return n.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			handled, idle := 0, true
			w := newWorld(sim.Options{})
			w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
				s, err := newParty(n)
				if err != nil {
					return err
				}
				s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { handled++ })
				w.board["server"] = s.ep.Name()
				if err := s.until(n, "the first requests", func() bool { return handled == 2 }); err != nil {
					return err
				}
				if err := takeIn(n, func() bool { return !idle }); err != nil {
					return err
				}
				if written(n) == 0 {
					return errors.New("there were no batches")
				}
				return s.until(n, "all requests", func() bool { return handled == 2+batchCredits })
			})
			w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: batchCredits}}, func(n *endpoint.Node) error {
				c, err := newParty(n)
				if err != nil {
					return err
				}
				if err := c.ep.Map(0, w.find("server"), 7); err != nil {
					return err
				}
				if err := fillBatches(n, c); err != nil {
					return err
				}
				idle = false
				return end(n, c)
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// fillBatches has the windows opened, and then uses all credits.
func fillBatches(n *endpoint.Node, c *party) error {
	data := make([]byte, 4096)
	for range 2 {
		if err := c.ep.RequestMedium(bg, 0, hMute, data); err != nil {
			return err
		}
	}
	c.drain(n)
	for range batchCredits {
		if err := c.ep.RequestMedium(bg, 0, hMute, data); err != nil {
			return err
		}
	}
	ctx, cancel := n.NIC().WithTimeout(bg, 5*time.Millisecond)
	defer cancel()
	if err := c.ep.RequestMedium(ctx, 0, hMute, data); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("one more than there are credits: %w", err)
	}
	return nil
}

// TestCorkedAndGone: messages that are corked when their connection ends,
// in any of the ways in which it can, are not looked at any more.
func TestCorkedAndGone(t *testing.T) {
	for name, end := range map[string]func(c *party) error{
		"freed":        func(c *party) error { return c.ep.Free() },
		"bundle freed": func(c *party) error { return c.b.Free() },
		"unmapped":     func(c *party) error { return c.ep.Unmap(0) },
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			err := pair(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: 16}}, func(s *party) {
				s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { ran++ })
			}, func(n *endpoint.Node, c *party) error {
				other, err := newParty(n)
				if err != nil {
					return err
				}
				for range 12 {
					if err := c.ep.Request(bg, 0, hMute); err != nil {
						return err
					}
				}
				if err := end(c); err != nil {
					return err
				}
				if waiting := endpoint.Corked(n); waiting > 0 && name != "unmapped" {
					return fmt.Errorf("%d messages still count as waiting", waiting)
				}
				for range 100 {
					if _, err := other.b.Poll(); err != nil {
						return err
					}
					w := n.NIC()
					ctx, cancel := w.WithTimeout(bg, 100*time.Microsecond)
					other.b.WaitPoll(ctx)
					cancel()
				}
				if name == "unmapped" && ran != 12 {
					return fmt.Errorf("%d of 12 requests were handled", ran)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCorkedOrder: messages of all sizes, some of which are corked and
// some of which do not, are handled in the order in which they were sent, each
// with its own arguments and data.
func TestCorkedOrder(t *testing.T) {
	seeds(t, 50, func(seed uint64) error {
		var got []uint32
		var wrong error
		opts := sim.Options{Seed: seed, Loss: float64(seed%3) * 0.03, Reorder: 0.02}
		return pair(opts, endpoint.Config{Credits: endpoint.Credits{Short: 64}}, func(s *party) {
			s.ep.SetSegment(make([]byte, 5000))
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
				if !slices.Equal(data, pattern(make([]byte, args[1]), int(args[0]))) {
					wrong = fmt.Errorf("the data of message %d is damaged", args[0])
				}
				got = append(got, args[0])
				t.ReplyMedium(hReply, data, args...)
			})
		}, func(n *endpoint.Node, c *party) error {
			var replies []uint32
			c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, data []byte) {
				if !slices.Equal(data, pattern(make([]byte, args[1]), int(args[0]))) {
					wrong = fmt.Errorf("the data of reply %d is damaged", args[0])
				}
				replies = append(replies, args[0])
			})
			const count = 300
			for id := range uint32(count) {
				size := []uint32{0, 1, 7, 8, 60, 500, 1000, 1024, 2000, 4096}[(uint64(id)*seed+uint64(id)/7)%10]
				data := pattern(make([]byte, size), int(id))
				var err error
				switch {
				case size == 0:
					err = c.ep.Request(bg, 0, hEcho, id, size, 1, 2)
				case id%2 == 0:
					err = c.ep.RequestMedium(bg, 0, hEcho, data, id, size)
				default:
					err = c.ep.RequestBulk(bg, 0, hEcho, data, 10, id, size)
				}
				if err != nil {
					return err
				}
			}
			if err := c.until(n, "replies", func() bool { return len(replies) == count }); err != nil {
				return err
			}
			if len(c.returned) > 0 || !slices.IsSorted(got) || !slices.IsSorted(replies) || len(got) != count {
				return fmt.Errorf("%d handled, %d replies, or not in order; %d came back", len(got), len(replies), len(c.returned))
			}
			return wrong
		})
	})
}

// TestGatheredNotForLong: handlers that take long do not keep the answers of
// those before them back.
func TestGatheredNotForLong(t *testing.T) {
	const requests, takes = 32, time.Millisecond
	w := newWorld(sim.Options{Seed: 1, Delay: 5 * time.Microsecond})
	var answers []time.Duration
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			w.Sleep(takes)
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		began := n.NIC().Now()
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {
			answers = append(answers, time.Duration(n.NIC().Now()-began))
		})
		for range requests {
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		return c.until(n, "the answers", func() bool { return len(answers) == requests })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for i, at := range answers {
		if handled := time.Duration(i+1) * takes; at > handled+6*takes {
			t.Errorf("answer %d came after %v, although its handler ended after %v", i, at, handled)
		}
	}
}

// TestCorkedLeave: who has waited need not poll: requests that are
// corked leave also when there was something at once to wait for.
func TestCorkedLeave(t *testing.T) {
	const requests = 8
	for name, wait := range map[string]func(c *party) error{
		"WaitPoll": func(c *party) error { _, err := c.b.WaitPoll(bg); return err },
		"Wait":     func(c *party) error { return c.b.Wait(bg) },
		"Call":     func(c *party) error { _, err := endpoint.Call[int32, int32](bg, c.ep, 1, 1, 5); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			w := newWorld(sim.Options{})
			w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
				s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { ran++ })
			}, func(n *endpoint.Node, c *party) error {
				c.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
				endpoint.Serve(c.ep, 1, func(_ endpoint.Token, r int32) (int32, error) { return r, nil })
				c.ep.Map(1, c.ep.Name(), 7)
				for range requests {
					if err := c.ep.Request(bg, 0, hMute); err != nil {
						return err
					}
				}
				if err := c.b.SetEventMask(endpoint.NotEmpty); err != nil {
					return err
				}
				if err := c.ep.Request(bg, 1, hMute); err != nil { // to itself: that is there at once
					return err
				}
				if err := wait(c); err != nil {
					return err
				}
				for range 100 { // the program computes, and its NIC goes on
					w.Sleep(50 * time.Microsecond)
					n.NIC().Poll()
				}
				if ran != requests {
					return fmt.Errorf("%d of %d requests were handled", ran, requests)
				}
				return nil
			})
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestGatheredSlowly: requests that come one by one do not wait for each other,
// though many are under way.
func TestGatheredSlowly(t *testing.T) {
	const requests, apart, delay = 50, 100 * time.Microsecond, time.Millisecond
	w := newWorld(sim.Options{Delay: delay})
	var sent, ran []int64
	w.pair(endpoint.Config{Credits: endpoint.Credits{Short: requests}}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			ran = append(ran, w.Now())
			t.Reply(hReply)
		})
	}, func(n *endpoint.Node, c *party) error {
		answers := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { answers++ })
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the connection", func() bool { return answers == 1 }); err != nil {
			return err
		}
		for ran = nil; len(sent) < requests; {
			w.Sleep(apart)
			sent = append(sent, w.Now())
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		return c.until(n, "the answers", func() bool { return answers == requests+1 })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for i := requests / 2; i < requests; i++ { // by then it is clear how they come, and the window is open
		if took := time.Duration(ran[i] - sent[i]); took > delay+apart/4 {
			t.Errorf("request %d ran its handler after %v, over a wire of %v", i, took, delay)
		}
	}
}
