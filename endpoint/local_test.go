package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/alloctest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSameNode: endpoints of one node exchange everything that others do.
func TestSameNode(t *testing.T) {
	w := newWorld(sim.Options{})
	w.node("host", endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		ep, err := c.b.NewEndpoint()
		if err != nil {
			return err
		}
		ep.SetTag(9)
		segment, mine := make([]byte, 300_000), make([]byte, 300_000)
		echoSizes(&party{b: c.b, ep: ep}, segment)
		c.ep.SetSegment(mine)
		done := 0
		var got []byte
		c.ep.SetHandler(hReply, func(t endpoint.Token, args []uint32, data []byte) { got = slices.Clone(data); done++ })
		c.ep.Map(0, ep.Name(), 9)
		for i, size := range []int{0, 1, 4096, 4097, 200_000} {
			if err := bulks(n, c, i, size, segment, mine, &done, &got); err != nil {
				return fmt.Errorf("bulk of %d bytes: %w", size, err)
			}
		}
		if err := c.ep.RequestMedium(bg, 0, hEcho, payload); err != nil {
			return err
		}
		if err := c.until(n, "medium", func() bool { return done == 3 }); err != nil || !bytes.Equal(got, payload) {
			return fmt.Errorf("medium: %d bytes, %w", len(got), err)
		}
		ep.SetTag(10)
		c.ep.Request(bg, 0, hMute)
		ep.Free()
		c.ep.Request(bg, 0, hMute)
		err = c.until(n, "returns", func() bool { return len(c.returned) == 2 })
		if err == nil && (c.returned[0].Reason != endpoint.ReasonBadEndpoint && c.returned[0].Reason != endpoint.ReasonBadTag) {
			err = fmt.Errorf("came back: %+v", c.returned)
		}
		return err
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestMoveAndFree: an endpoint moves between bundles with what waits there and
// keeps its connections; freed, its senders get their messages back.
func TestMoveAndFree(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		var server *party
		var second *endpoint.Bundle
		ran := map[string]int{}
		w := newWorld(sim.Options{Seed: seed, Loss: 0.02})
		w.pair(endpoint.Config{}, func(s *party) {
			server = s
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
				if t.Endpoint().Bundle() == second {
					ran["second"]++
				} else {
					ran["first"]++
				}
				if err := t.Endpoint().Move(t.Endpoint().Bundle()); !errors.Is(err, endpoint.ErrInUse) {
					panic("moved in a handler")
				}
				t.Reply(hReply, args...)
			})
		}, func(n *endpoint.Node, c *party) error {
			replies := 0
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			for range 10 {
				if err := c.ep.Request(bg, 0, hEcho); err != nil {
					return err
				}
			}
			if err := c.until(n, "replies", func() bool { return replies == 10 }); err != nil {
				return err
			}
			for range 4 { // these wait in the server's pools, or are under way
				c.ep.Request(bg, 0, hEcho)
			}
			first := server.b
			var err error
			if second, err = serverNode(server).NewBundle(endpoint.Sequential); err != nil {
				return err
			}
			if err := server.ep.Move(second); err != nil {
				return err
			}
			server.b = second
			if err := c.until(n, "replies of the second bundle", func() bool { return replies == 14 }); err != nil {
				return err
			}
			if ran["second"] == 0 || ran["first"] < 10 {
				return fmt.Errorf("handlers ran: %v", ran)
			}
			c.ep.Request(bg, 0, hEcho)
			server.ep.Free()
			server.b = first
			err = c.until(n, "the return", func() bool { return len(c.returned)+replies == 15 })
			if err == nil && len(c.returned) == 1 && c.returned[0].Reason != endpoint.ReasonBadEndpoint {
				err = fmt.Errorf("came back for %v", c.returned[0].Reason)
			}
			return err
		})
		return w.run()
	})
}

// TestMoveWaiting: requests that wait for their handlers move too.
func TestMoveWaiting(t *testing.T) {
	w := newWorld(sim.Options{})
	w.node("host", endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply) })
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		c.ep.Map(0, s.ep.Name(), 5)
		for range 4 {
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		second, err := n.NewBundle(endpoint.Sequential)
		if err != nil {
			return err
		}
		if err := s.ep.Move(second); err != nil {
			return err
		}
		before, _ := s.b.Poll()
		after, _ := second.Poll()
		c.b.Poll()
		if before != 0 || after != 4 || replies != 4 {
			return fmt.Errorf("%d handled before the move, %d after it, %d replies", before, after, replies)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

var nodes sync.Map // of bundles, for tests that act on the server from the client's process

func serverNode(s *party) *endpoint.Node {
	n, _ := nodes.Load(s.b)
	return n.(*endpoint.Node)
}

// TestUnmapUnderTraffic: what is under way ends, exactly once, and the index can
// be mapped again at once.
func TestUnmapUnderTraffic(t *testing.T) {
	seeds(t, 20, func(seed uint64) error {
		return pair(sim.Options{Seed: seed, Loss: 0.05}, endpoint.Config{}, func(s *party) {
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply, args...) })
		}, func(n *endpoint.Node, c *party) error {
			replies := 0
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			to, tag, err := c.ep.Translation(0)
			if err != nil {
				return err
			}
			for i := range 30 {
				if err := c.ep.Request(bg, 0, hEcho); err != nil {
					return err
				}
				if i%3 == 2 {
					if err := c.ep.Unmap(0); err != nil {
						return err
					}
					if err := c.ep.Unmap(0); !errors.Is(err, endpoint.ErrResource) {
						return fmt.Errorf("unmapped twice: %w", err)
					}
					if err := c.ep.Map(0, to, tag); err != nil {
						return err
					}
				}
			}
			return c.until(n, "replies", func() bool { return replies == 30 })
		})
	})
}

// TestRules: what is refused at the call.
func TestRules(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
			var bad []error
			if _, err := s.b.Poll(); !errors.Is(err, endpoint.ErrInHandler) {
				bad = append(bad, fmt.Errorf("poll in a handler: %w", err))
			}
			if err := s.ep.Request(bg, 0, hEcho); !errors.Is(err, endpoint.ErrInHandler) {
				bad = append(bad, fmt.Errorf("request in a handler: %w", err))
			}
			if err := t.Reply(hReply); err != nil {
				bad = append(bad, err)
			}
			if err := t.Reply(hReply); !errors.Is(err, endpoint.ErrResource) {
				bad = append(bad, fmt.Errorf("second reply: %w", err))
			}
			s.returned = append(s.returned, endpoint.Returned{Err: errors.Join(bad...)})
		})
	}, func(n *endpoint.Node, c *party) error {
		var late endpoint.Token
		var reply error
		c.ep.SetHandler(hReply, func(t endpoint.Token, _ []uint32, _ []byte) { late, reply = t, t.Reply(hReply) })
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the reply", func() bool { return reply != nil }); err != nil {
			return err
		}
		if err := late.Reply(hReply); !errors.Is(reply, endpoint.ErrResource) || !errors.Is(err, endpoint.ErrResource) {
			return fmt.Errorf("reply to a reply: %w; late: %w", reply, err)
		}
		if err := c.b.Wait(bg); !errors.Is(err, endpoint.ErrNoEvents) {
			return fmt.Errorf("wait without events: %w", err)
		}
		if err := c.ep.Map(0, c.ep.Name(), 0); !errors.Is(err, endpoint.ErrInUse) {
			return fmt.Errorf("mapped twice: %w", err)
		}
		if err := c.ep.Map(256, c.ep.Name(), 0); !errors.Is(err, endpoint.ErrArgument) {
			return fmt.Errorf("mapped beyond the table: %w", err)
		}
		if err := c.ep.SetNumTranslations(1000); err != nil {
			return err
		}
		if err := c.ep.Map(999, c.ep.Name(), 0); err != nil {
			return err
		}
		if err := c.ep.SetNumTranslations(300); !errors.Is(err, endpoint.ErrInUse) {
			return fmt.Errorf("cut off an entry: %w", err)
		}
		if i, err := c.ep.MapAny(c.ep.Name(), 0); i != 1 || err != nil {
			return fmt.Errorf("map any: %d, %w", i, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEvents: the pattern of the virtual-network paper.
func TestEvents(t *testing.T) {
	w := newWorld(sim.Options{})
	const requests = 50
	w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		handled := 0
		s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) { handled++; t.Reply(hReply) })
		w.board["server"] = s.ep.Name()
		for handled < requests {
			s.b.SetEventMask(endpoint.NotEmpty)
			if err := s.b.Wait(bg); err != nil {
				return err
			}
			s.b.SetEventMask(endpoint.NoEvents)
			for {
				k, err := s.b.Poll()
				if err != nil {
					return err
				}
				if k == 0 {
					break
				}
			}
		}
		ctx, cancel := n.NIC().WithTimeout(bg, 20*time.Millisecond)
		defer cancel()
		s.b.SetEventMask(endpoint.NotEmpty)
		if err := s.b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("wait for nothing: %w", err)
		}
		return nil
	})
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		c.ep.Map(0, w.find("server"), 1)
		for range requests {
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		return c.until(n, "replies", func() bool { return replies == requests })
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// hostNodes opens two nodes that reach each other through shared memory.
func hostNodes(t testing.TB, cfg endpoint.Config) (nodes [2]*endpoint.Node) {
	t.Helper()
	for i := range nodes {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		cfg.NIC = nic
		if nodes[i], err = endpoint.Open(t.Context(), &cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nodes[i].Close() })
	}
	return nodes
}

// TestParallelBundle: several goroutines serve one bundle, by polling and by
// waiting, and several send from another.
func TestParallelBundle(t *testing.T) {
	nodes := hostNodes(t, endpoint.Config{})
	const senders, calls = 4, 300
	server, err := nodes[0].NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	var names [senders]endpoint.Name
	for i := range names {
		ep, err := server.NewEndpoint()
		if err != nil {
			t.Fatal(err)
		}
		ep.SetTag(endpoint.TagAll)
		if err := endpoint.Serve(ep, 1, func(_ endpoint.Token, r int64) (int64, error) { return r * r, nil }); err != nil {
			t.Fatal(err)
		}
		names[i] = ep.Name()
	}
	ctx, stop := context.WithTimeout(bg, time.Minute)
	defer stop()
	var serving, calling sync.WaitGroup
	for range 3 {
		serving.Go(func() {
			for {
				if _, err := server.WaitPoll(ctx); err != nil {
					return
				}
			}
		})
	}
	client, err := nodes[1].NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Pointer[error]
	for i := range senders {
		calling.Go(func() {
			if err := callSquares(ctx, client, names[i], calls); err != nil {
				failed.Store(&err)
			}
		})
	}
	calling.Wait()
	stop()
	serving.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

func callSquares(ctx context.Context, b *endpoint.Bundle, to endpoint.Name, calls int64) error {
	ep, err := b.NewEndpoint()
	if err != nil {
		return err
	}
	ep.SetTag(endpoint.TagAll)
	if err := ep.Map(0, to, 5); err != nil {
		return err
	}
	for i := range calls {
		if got, err := endpoint.Call[int64, int64](ctx, ep, 0, 1, i); err != nil || got != i*i {
			return fmt.Errorf("the square of %d is %d, %w", i, got, err)
		}
	}
	return nil
}

// TestNoAllocations: requests, replies and handlers of all sizes allocate
// nothing, on either side.
func TestNoAllocations(t *testing.T) {
	nodes := hostNodes(t, endpoint.Config{})
	server, err := newParty(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	server.ep.SetSegment(make([]byte, 100_000))
	server.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, data []byte) {
		if len(data) > endpoint.DefaultMaxMedium {
			t.ReplyBulk(hReply, data, 0)
			return
		}
		t.ReplyMedium(hReply, data, args...)
	})
	server.ep.SetHandler(hMute, func(t endpoint.Token, args []uint32, data []byte) { t.Reply(hReply, args...) })
	var serving sync.WaitGroup
	serving.Go(func() {
		for { // by a context without end, because to watch over another one allocates when a wait has become long
			if _, err := server.b.WaitPoll(bg); err != nil {
				return
			}
		}
	})
	defer serving.Wait()
	defer func() {
		for server.b.Free() != nil { // while a handler has not returned
			runtime.Gosched()
		}
	}()
	client, err := newParty(nodes[1])
	if err != nil {
		t.Fatal(err)
	}
	client.ep.SetSegment(make([]byte, 100_000))
	replied := false
	client.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replied = true })
	client.ep.Map(0, server.ep.Name(), 5)
	data := make([]byte, 50_000)
	for what, send := range map[string]func() error{
		"short":      func() error { return client.ep.Request(bg, 0, hMute, 1, 2, 3, 4) },
		"unlike":     func() error { return client.ep.Request(bg, 0, hEcho, 1, 2, 3, 4) }, // a medium reply
		"medium":     func() error { return client.ep.RequestMedium(bg, 0, hEcho, data[:2000], 1, 2) },
		"short bulk": func() error { return client.ep.RequestBulk(bg, 0, hEcho, data[:2000], 100, 1) },
		"long bulk":  func() error { return client.ep.RequestBulk(bg, 0, hEcho, data, 100, 1) },
		"get":        func() error { return client.ep.Get(bg, 0, hReply, 0, 0, 20_000) },
	} {
		var failure error
		round := func() {
			replied = false
			err := send()
			for err == nil && !replied {
				_, err = client.b.WaitPoll(bg)
			}
			if err != nil {
				failure = err
			}
		}
		for range 200 {
			round()
		}
		allocs := alloctest.PerRun(t, 300, round)
		if failure != nil {
			t.Fatalf("%s: %v", what, failure)
		}
		if allocs != 0 {
			t.Errorf("%s: %v allocations a round, want 0", what, allocs)
		}
	}
}
