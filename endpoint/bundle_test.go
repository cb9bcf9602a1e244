package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestEventMask: what is an event, and who takes it.
func TestEventMask(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		c.ep.Map(0, s.ep.Name(), 5)
		gone, cancel := context.WithCancel(bg)
		cancel()
		event := func(what string, b *endpoint.Bundle, want bool) {
			switch got := b.Wait(gone); {
			case want && got != nil:
				err = errors.Join(err, fmt.Errorf("%s is no event: %w", what, got))
			case !want && !errors.Is(got, context.Canceled):
				err = errors.Join(err, fmt.Errorf("%s is an event, or: %w", what, got))
			}
		}
		if e := s.b.SetEventMask(2); !errors.Is(e, endpoint.ErrArgument) || s.b.EventMask() != endpoint.NoEvents {
			return fmt.Errorf("mask 2: %w, and the mask is %d", e, s.b.EventMask())
		}
		s.b.SetEventMask(endpoint.NotEmpty)
		event("nothing", s.b, false)
		c.ep.Request(bg, 0, hEcho)
		event("a request", s.b, true)
		event("what was taken", s.b, false)
		s.b.Poll()
		event("the end of a poll", s.b, false)
		c.b.SetEventMask(endpoint.NotEmpty)
		event("a reply that waited when the mask was set", c.b, true)
		s.b.SetEventMask(endpoint.NoEvents)
		c.ep.Request(bg, 0, hEcho)
		s.b.SetEventMask(endpoint.NotEmpty)
		event("a request that waited when the mask was set", s.b, true)
		other, _ := n.NewBundle(endpoint.Sequential)
		other.SetEventMask(endpoint.NotEmpty)
		s.ep.Move(other)
		event("a request that came with its endpoint", other, true)
		other.Poll()
		c.b.Poll()
		c.b.SetEventMask(endpoint.NotEmpty)
		event("nothing", c.b, false)
		s.ep.Free()
		c.ep.Request(bg, 0, hEcho)
		event("a message that comes back", c.b, true)
		if other.EventMask() != endpoint.NotEmpty {
			return errors.New("the mask has changed")
		}
		return err
	})
}

// TestEndpointEventMask: messages for an endpoint whose mask is NoEvents post no semaphore, and wait
// for a poll or for the mask to be set.
func TestEndpointEventMask(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		c, err := newParty(n)
		if err != nil {
			return err
		}
		loud, err := s.b.NewEndpoint()
		if err != nil {
			return err
		}
		loud.SetTag(5)
		ran := 0
		for _, ep := range []*endpoint.Endpoint{s.ep, loud} {
			ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { ran++; t.Reply(hReply) })
		}
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		if err := errors.Join(c.ep.Map(0, s.ep.Name(), 5), c.ep.Map(1, loud.Name(), 5), s.b.SetEventMask(endpoint.NotEmpty)); err != nil {
			return err
		}
		if e := s.ep.SetEventMask(2); !errors.Is(e, endpoint.ErrArgument) || s.ep.EventMask() != endpoint.NotEmpty {
			return fmt.Errorf("mask 2: %w, and the mask is %d", e, s.ep.EventMask())
		}
		gone, cancel := context.WithCancel(bg)
		cancel()
		event := func(what string, want bool) error {
			if got := s.b.Wait(gone); (got == nil) != want {
				return fmt.Errorf("%s: an event is %v, want %v: %w", what, got == nil, want, got)
			}
			return nil
		}
		ask := func(index int) error { return c.ep.Request(bg, index, hEcho) }
		if err := errors.Join(s.ep.SetEventMask(endpoint.NoEvents), ask(0), event("a silent endpoint's request", false), ask(1), event("another one's request", true)); err != nil {
			return err
		}
		if _, err := s.b.Poll(); err != nil || ran != 2 || s.ep.EventMask() != endpoint.NoEvents {
			return fmt.Errorf("a poll: %d handlers have run, want both endpoints': %w", ran, err)
		}
		return errors.Join(ask(0), event("a silent endpoint's request again", false), s.ep.SetEventMask(endpoint.NotEmpty), event("one that waited when the mask was set", true))
	})
}

// TestEventOfTheRest: what a poll leaves over, because it handles some tens of
// messages at most, is an event.
func TestEventOfTheRest(t *testing.T) {
	const senders = 200
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		s, err := newParty(n)
		if err != nil {
			return err
		}
		ran := 0
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { ran++; t.Reply(hReply) })
		for range senders {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			c.ep.Map(0, s.ep.Name(), 5)
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		s.b.SetEventMask(endpoint.NotEmpty)
		for ran < senders {
			ctx, cancel := n.NIC().WithTimeout(bg, time.Second)
			err := s.b.Wait(ctx)
			cancel()
			if err != nil {
				return fmt.Errorf("%d of %d requests are handled, and no event tells of the rest: %w", ran, senders, err)
			}
			if _, err := s.b.Poll(); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestFreeWhileWaiting: whoever waits in a bundle that is freed, for a message,
// an event, a credit or an answer, hears of it.
func TestFreeWhileWaiting(t *testing.T) {
	for name, wait := range map[string]func(c *party) error{
		"WaitPoll":                   func(c *party) error { _, err := c.b.WaitPoll(bg); return err },
		"WaitPoll without endpoints": func(c *party) error { c.ep.Free(); _, err := c.b.WaitPoll(bg); return err },
		"Wait":                       func(c *party) error { c.b.SetEventMask(endpoint.NotEmpty); return c.b.Wait(bg) },
		"Request": func(c *party) error {
			for {
				if err := c.ep.Request(bg, 0, hMute); err != nil {
					return err
				}
			}
		},
		"Call": func(c *party) error { _, err := endpoint.Call[string, string](bg, c.ep, 0, 1, "x"); return err },
	} {
		for _, free := range []string{"bundle", "node", "endpoint"} {
			if free == "endpoint" && strings.HasPrefix(name, "Wait") { // the bundle has others, or may get them
				continue
			}
			t.Run(name+" "+free, func(t *testing.T) {
				w := newWorld(sim.Options{})
				w.node("silent", endpoint.Config{}, func(n *endpoint.Node) error {
					s, err := newParty(n)
					if err != nil {
						return err
					}
					w.board["server"] = s.ep.Name()
					for range 100 { // takes in, handles nothing
						w.Sleep(time.Millisecond)
						n.NIC().Poll()
					}
					return nil
				})
				w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
					c, err := newParty(n)
					if err != nil {
						return err
					}
					c.ep.Map(0, w.find("server"), 5)
					w.Go("closer", func() { // to close a node takes time
						w.Sleep(20 * time.Millisecond)
						switch free {
						case "bundle":
							err = c.b.Free()
						case "endpoint":
							err = c.ep.Free()
						default:
							err = n.Close()
						}
					})
					if got := wait(c); !errors.Is(got, endpoint.ErrClosed) {
						return fmt.Errorf("it returned: %w", got)
					}
					return err
				})
				if err := w.run(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestManyBundles: goroutines with bundles of their own, in two nodes, call
// those of both nodes, while each node waits through one of them at a time.
func TestManyBundles(t *testing.T) {
	nodes := hostNodes(t, endpoint.Config{})
	const each, calls = 3, 100
	ctx, stop := context.WithTimeout(bg, time.Minute)
	defer stop()
	var parties []*party
	for i := range 2 * each {
		p, err := newParty(nodes[i%2])
		if err != nil {
			t.Fatal(err)
		}
		if err := endpoint.Serve(p.ep, 1, func(_ endpoint.Token, r int64) (int64, error) { return r * r, nil }); err != nil {
			t.Fatal(err)
		}
		parties = append(parties, p)
	}
	for _, p := range parties {
		for i, other := range parties {
			p.ep.Map(i, other.ep.Name(), 5)
		}
	}
	var calling, serving sync.WaitGroup
	errs := make([]error, len(parties))
	for k, p := range parties {
		calling.Add(1)
		serving.Go(func() {
			for i := range int64(calls) {
				dest := (k + int(i)) % len(parties)
				if got, err := endpoint.Call[int64, int64](ctx, p.ep, dest, 1, i); err != nil || got != i*i {
					errs[k] = fmt.Errorf("call %d of %d to %d: %d, %w", i, k, dest, got, err)
					break
				}
			}
			calling.Done()
			for errs[k] == nil { // for the others
				if _, err := p.b.WaitPoll(ctx); err != nil {
					return
				}
			}
		})
	}
	calling.Wait()
	stop()
	serving.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestWaitTogether: several goroutines of one node wait in virtual time, each for
// messages to a bundle of its own, and get them in the order in which they are sent,
// whichever of them waits for the network. The times of those that get none end to the
// nanosecond, and the node's end ends the wait of one without a time.
func TestWaitTogether(t *testing.T) {
	const servers, patience = 4, 3 * time.Second
	w := newWorld(sim.Options{Seed: 3})
	var names [servers]endpoint.Name
	var order []int
	ended, left := 0, servers
	w.node("servers", endpoint.Config{}, func(n *endpoint.Node) error {
		for i := range servers {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
				order = append(order, i)
				t.Reply(hReply, args...)
			})
			names[i] = s.ep.Name()
			w.Go(fmt.Sprint("server ", i), func() {
				defer func() { left-- }()
				if err := serveTwice(w, n, s, patience, i == 0); err != nil {
					w.errs = append(w.errs, fmt.Errorf("server %d: %w", i, err))
				}
				ended++
			})
		}
		w.Sleep(time.Minute)
		if ended != servers-1 {
			return fmt.Errorf("%d have ended before the node", ended)
		}
		return nil
	})
	var want []int
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		w.Sleep(time.Millisecond)
		c, err := newParty(n)
		if err != nil {
			return err
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		for i, name := range names {
			c.ep.Map(i, name, 7)
		}
		for _, i := range []int{2, 0, 3, 1, 1, 3, 0, 2} {
			want = append(want, i)
			if err := c.ep.Request(bg, i, hEcho); err != nil {
				return err
			}
			if err := c.until(n, "the reply", func() bool { return replies == len(want) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(order, want) || left != 0 {
		t.Errorf("served in the order %v, want %v; %d still wait", order, want, left)
	}
}

// serveTwice serves two requests, and then waits in vain: for so long, or, if it is to
// last, until the node is closed.
func serveTwice(w *world, n *endpoint.Node, s *party, patience time.Duration, last bool) error {
	for served := 0; served < 2; {
		k, err := s.b.WaitPoll(bg)
		if err != nil {
			return err
		}
		served += k
	}
	if last {
		if _, err := s.b.WaitPoll(bg); !errors.Is(err, endpoint.ErrClosed) {
			return fmt.Errorf("the wait at the end of the node: %w", err)
		}
		return nil
	}
	ctx, cancel := n.NIC().WithTimeout(bg, patience)
	defer cancel()
	began := w.Now()
	_, err := s.b.WaitPoll(ctx)
	if took := time.Duration(w.Now() - began); !errors.Is(err, context.DeadlineExceeded) || took != patience {
		return fmt.Errorf("after %v, not %v: %w", took, patience, err)
	}
	return nil
}
