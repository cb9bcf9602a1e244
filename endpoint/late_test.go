package endpoint_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// A long bulk message is accepted when it is announced and handled when its data
// has come. These tests let something happen in between.

// between is a server in one node with two clients, the first of which has
// announced a long bulk request; the handler hEcho, which the second calls, runs
// after the grant and before the data is handled.
type between struct {
	server, first, second *party
	segment               []byte
	ran                   int // hMute, for the bulk request
	data                  []byte
}

func newBetween(n *endpoint.Node, act func(b *between)) (*between, error) {
	b := &between{segment: make([]byte, 20_000), data: pattern(make([]byte, 10_000), 4)}
	for _, p := range []**party{&b.server, &b.first, &b.second} {
		var err error
		if *p, err = newParty(n); err != nil {
			return nil, err
		}
	}
	s := b.server.ep
	s.SetTag(7)
	s.SetSegment(b.segment)
	s.SetHandler(hMute, func(_ endpoint.Token, _ []uint32, data []byte) { b.ran++ })
	s.SetHandler(hEcho, func(endpoint.Token, []uint32, []byte) { act(b) })
	for _, p := range []*party{b.first, b.second} {
		if err := p.ep.Map(0, s.Name(), 7); err != nil {
			return nil, err
		}
	}
	if err := b.first.ep.RequestBulkAsync(0, hMute, b.data, 100, 1, 2); err != nil {
		return nil, err
	}
	if err := b.second.ep.Request(bg, 0, hEcho); err != nil {
		return nil, err
	}
	_, err := b.server.b.Poll()
	return b, err
}

// oneNode runs fn as the only process of a world.
func oneNode(t *testing.T, cfg endpoint.Config, fn func(n *endpoint.Node) error) {
	t.Helper()
	w := newWorld(sim.Options{})
	w.node("host", cfg, fn)
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestBetweenGrantAndData: the tag and the handlers that are set when the data
// has come decide, as for every message.
func TestBetweenGrantAndData(t *testing.T) {
	for _, c := range []struct {
		name   string
		reason endpoint.Reason
		act    func(b *between)
	}{
		{"nothing", 0, func(b *between) {}},
		{"handler removed", endpoint.ReasonBadHandler, func(b *between) { b.server.ep.SetHandler(hMute, nil) }},
		{"tag changed", endpoint.ReasonBadTag, func(b *between) { b.server.ep.SetTag(8) }},
		{"tag taken away", endpoint.ReasonBadTag, func(b *between) { b.server.ep.SetTag(endpoint.TagNone) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
				b, err := newBetween(n, c.act)
				if err != nil {
					return err
				}
				if _, err := b.first.b.Poll(); err != nil {
					return err
				}
				if panics := n.Stats().Panics; panics > 0 {
					return fmt.Errorf("%d panics", panics)
				}
				if err := b.server.ep.SetSegment(nil); err != nil {
					return fmt.Errorf("after all: %w", err)
				}
				if c.reason == 0 && (b.ran != 1 || len(b.first.returned) > 0 || !bytes.Equal(b.segment[100:10_100], b.data)) {
					return fmt.Errorf("ran %d times, came back: %+v", b.ran, b.first.returned)
				}
				if c.reason != 0 && (b.ran != 0 || len(b.first.returned) != 1 || b.first.returned[0].Reason != c.reason) {
					return fmt.Errorf("ran %d times, %d came back, want one for %v", b.ran, len(b.first.returned), c.reason)
				}
				return nil
			})
		})
	}
}

// TestSegmentAfterSenderLeft: a sender that leaves between its data and its
// handler leaves no right behind, and the segment can be changed. The data have come, so
// the handler runs.
func TestSegmentAfterSenderLeft(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		var inUse error
		b, err := newBetween(n, func(b *between) {
			inUse = b.server.ep.SetSegment(nil)
			b.first.ep.Free()
		})
		if err != nil {
			return err
		}
		if inUse == nil {
			return fmt.Errorf("the segment was changed while a peer might write to it")
		}
		if b.ran != 1 || !bytes.Equal(b.segment[100:10_100], b.data) {
			return fmt.Errorf("the handler ran %d times for what a sender that has left has sent", b.ran)
		}
		return b.server.ep.SetSegment(nil)
	})
}

// TestReplyHandlerRemoved: the same for a bulk reply at the client, whose server
// gets it back.
func TestReplyHandlerRemoved(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		c, err := newParty(n)
		if err != nil {
			return err
		}
		s, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetSegment(make([]byte, 20_000))
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { panic("removed, and run all the same") })
		c.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) { c.ep.SetHandler(hReply, nil) })
		s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyBulk(hReply, make([]byte, 10_000), 0) })
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hMute) })
		c.ep.Map(0, s.ep.Name(), 5)
		c.ep.Map(1, s.ep.Name(), 5)
		if err := c.ep.Request(bg, 0, hBig); err != nil {
			return err
		}
		if err := c.ep.Request(bg, 1, hEcho); err != nil {
			return err
		}
		for range 4 {
			if _, err := s.b.Poll(); err != nil {
				return err
			}
			if _, err := c.b.Poll(); err != nil {
				return err
			}
		}
		if panics := n.Stats().Panics; panics > 0 {
			return fmt.Errorf("%d panics", panics)
		}
		if len(s.returned) != 1 || s.returned[0].Reason != endpoint.ReasonReplyRejected || len(s.returned[0].Data) != 10_000 {
			return fmt.Errorf("%d replies came back", len(s.returned))
		}
		return c.ep.SetSegment(nil)
	})
}

// TestReplyDies: a client that dies while the data of a bulk reply is on its way
// gives the reply back to its server, once, with the data.
func TestReplyDies(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Bandwidth: 10_000_000})
		var server *party
		replied, handled := 0, 0
		data := pattern(make([]byte, 30_000), 2)
		w.pair(endpoint.Config{PeerTimeout: time.Second}, func(s *party) {
			server = s
			s.ep.SetHandler(hBig, func(t endpoint.Token, args []uint32, _ []byte) {
				replied++
				t.ReplyBulk(hReply, data, 0, args...)
			})
		}, func(n *endpoint.Node, c *party) error {
			c.ep.SetSegment(make([]byte, len(data)))
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { handled++ })
			if err := c.ep.Request(bg, 0, hBig, 9); err != nil {
				return err
			}
			w.At(w.Now()+int64(time.Duration(seed*7%40)*time.Millisecond), func() { w.Kill(w.stations["client"]) })
			c.until(n, "the reply", func() bool { return handled > 0 })
			c.until(n, "death", func() bool { return false })
			for range 1000 { // the server hears of it
				w.Sleep(5 * time.Millisecond)
			}
			return errDead
		})
		if err := w.run(); err != nil {
			return err
		}
		if handled == 1 && len(server.returned) <= 1 { // what has arrived may come back if that is not known
			return nil
		}
		if replied != len(server.returned) {
			return fmt.Errorf("%d replies, %d handled, %d came back", replied, handled, len(server.returned))
		}
		for _, r := range server.returned {
			if r.Op != endpoint.OpReplyBulk || r.Reason != endpoint.ReasonUnreachable || !bytes.Equal(r.Data, data) {
				return fmt.Errorf("came back: %v for %v with %d bytes", r.Op, r.Reason, len(r.Data))
			}
		}
		return nil
	})
}

// TestGetRefusedHere: data that its own asker cannot take, because its segment is
// too short or its tag has changed, comes back to the asker, as the request
// that it was. The endpoint that it is read from has sent nothing, and hears
// nothing.
func TestGetRefusedHere(t *testing.T) {
	for _, size := range []int{100, 10_000} {
		for _, c := range []struct {
			name   string
			reason endpoint.Reason
			act    func(c *party)
		}{
			{"beyond the segment", endpoint.ReasonBadLength, func(c *party) { c.ep.SetSegment(make([]byte, 50)) }},
			{"no segment", endpoint.ReasonBadOffset, func(c *party) { c.ep.SetSegment(nil) }},
			{"no handler", endpoint.ReasonBadHandler, func(c *party) { c.ep.SetHandler(hReply, nil) }},
			{"tag", endpoint.ReasonBadTag, func(c *party) { c.ep.SetTag(endpoint.TagNone) }},
		} {
			t.Run(fmt.Sprint(c.name, " ", size), func(t *testing.T) {
				var server *party
				err := pair(sim.Options{}, endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(s *party) {
					server = s
					s.ep.SetSegment(make([]byte, 20_000))
					s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
				}, func(n *endpoint.Node, p *party) error {
					p.ep.SetSegment(make([]byte, 20_000))
					p.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { panic("refused, and run all the same") })
					if err := p.ep.Get(bg, 0, hReply, 0, 10, size, 1, 2); err != nil {
						return err
					}
					c.act(p)
					if err := p.ep.Request(bg, 0, hMute); err != nil { // needs the one credit
						return err
					}
					if len(server.returned) > 0 {
						return fmt.Errorf("the server got back %v for %v", server.returned[0].Op, server.returned[0].Reason)
					}
					if len(p.returned) != 1 || p.returned[0].Op != endpoint.OpGet || p.returned[0].Reason != c.reason {
						return fmt.Errorf("came back here: %+v, want a get for %v", p.returned, c.reason)
					}
					return server.ep.SetSegment(nil) // nobody fetches from it any more
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}
