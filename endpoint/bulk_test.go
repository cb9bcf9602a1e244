package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// getter is a bare VI that fetches part of a server's segment, step by step.
type getter struct {
	*intruder
	w      *world
	n      *endpoint.Node
	server *party
	mem    []byte
}

const getSize = 10_000

// get asks for the first bytes of the segment and waits until they are announced.
func (g *getter) get(use uint32) error {
	heard := g.heard
	g.say(endpoint.Message(endpoint.KindGet, hReply, 0, use, 0, 0, 0, getSize, nil, make([]byte, 8)))
	for range 100 {
		if g.rest(1); g.heard > heard {
			return nil
		}
	}
	return errors.New("nothing was announced: this tests nothing")
}

// clear says where the data are to go.
func (g *getter) clear(use uint32) error {
	window, err := g.opens(g.mem)
	g.say(endpoint.Message(endpoint.KindClear, 0, 0, use, 0, 0, 0, 0, nil, window))
	return err
}

func (g *getter) rest(ms int) {
	for range ms {
		g.w.Sleep(time.Millisecond)
		g.hear()
	}
}

// kept reports whether the segment cannot be replaced.
func (g *getter) kept() bool { return errors.Is(g.server.ep.SetSegment(nil), endpoint.ErrInUse) }

// getterTest runs steps against a server that has a segment of a pattern.
func getterTest(t *testing.T, steps func(g *getter) error) {
	t.Helper()
	w := newWorld(sim.Options{Bandwidth: 10_000_000}) // the data take 8 ms
	var server *party
	w.pair(endpoint.Config{PeerTimeout: time.Second}, func(s *party) {
		server = s
		s.ep.SetSegment(pattern(make([]byte, 2*getSize), 5))
	}, func(n *endpoint.Node, c *party) error {
		x, err := c.intrude(n, 4)
		if err != nil {
			return err
		}
		return steps(&getter{x, w, n, server, make([]byte, getSize)})
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestGetKeepsSegment: whoever replaces his segment may unmap it, so that does not
// succeed from the announcement of a long get until its data have gone.
func TestGetKeepsSegment(t *testing.T) {
	getterTest(t, func(g *getter) error {
		for use := uint32(1); use <= 3; use++ {
			if err := g.get(use); err != nil {
				return err
			}
			if !g.kept() {
				return errors.New("the segment was taken away from a get that is announced")
			}
			clear(g.mem)
			if err := g.clear(use); err != nil {
				return err
			}
			if g.rest(3); !g.kept() {
				return errors.New("the segment was taken away from data under way")
			}
			if g.rest(40); !bytes.Equal(g.mem, pattern(make([]byte, getSize), 5)) {
				return errors.New("the data are not those of the segment")
			}
		}
		return g.server.ep.SetSegment(nil)
	})
}

// TestGetNotFetched: who has a get announced and leaves, or refuses it, does not keep
// the segment.
func TestGetNotFetched(t *testing.T) {
	for name, leave := range map[string]func(g *getter){
		"leaves": func(g *getter) { g.vi.Disconnect() },
		"leaves under way": func(g *getter) {
			g.clear(1)
			g.rest(2)
			g.vi.Disconnect()
		},
		"refuses": func(g *getter) {
			msg := endpoint.Message(endpoint.KindRefuse, 0, 0, 1, 0, 0, 0, 0, nil, nil)
			msg[3] = uint8(endpoint.ReasonBadTag)
			g.say(msg)
		},
		"goes on": func(g *getter) { // in a slot whose data are under way, of which he cannot know
			g.clear(1)
			g.rest(2)
			g.get(2)
			g.clear(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			getterTest(t, func(g *getter) error {
				if err := g.get(1); err != nil {
					return err
				}
				if !g.kept() {
					return errors.New("the segment was taken away from a get")
				}
				leave(g)
				g.rest(100)
				return g.server.ep.SetSegment(nil)
			})
		})
	}
}

// TestGetJudgedAgain: a long get is refused if its tag is not its server's any more
// when its data would go. Nothing is written, and both segments are free.
func TestGetJudgedAgain(t *testing.T) {
	judge := func(n *endpoint.Node, s, c *party, rest func()) error {
		mine := make([]byte, getSize)
		c.ep.SetSegment(mine)
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { panic("refused, and run all the same") })
		for round := range 2 {
			s.ep.SetTag(7)
			if err := c.ep.Get(bg, 0, hReply, 0, 0, getSize, 1, 2); err != nil {
				return err
			}
			rest() // it is announced, and the client has not looked
			s.ep.SetTag(8)
			if err := c.until(n, "the return", func() bool { return len(c.returned) > round }); err != nil {
				return err
			}
			if r := c.returned[round]; r.Op != endpoint.OpGet || r.Reason != endpoint.ReasonBadTag || len(r.Args) != 2 {
				return fmt.Errorf("came back: %+v", r)
			}
		}
		if !bytes.Equal(mine, make([]byte, getSize)) {
			return errors.New("data of a get that was refused were written")
		}
		return errors.Join(c.ep.SetSegment(nil), s.ep.SetSegment(nil))
	}
	t.Run("two nodes", func(t *testing.T) {
		w := newWorld(sim.Options{})
		var server *party
		w.pair(endpoint.Config{}, func(s *party) {
			server = s
			s.ep.SetSegment(pattern(make([]byte, getSize), 5))
		}, func(n *endpoint.Node, c *party) error {
			return judge(n, server, c, func() {
				for range 20 {
					w.Sleep(time.Millisecond)
					n.NIC().Poll()
				}
			})
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("one node", func(t *testing.T) {
		oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			both, err := newParty(n)
			if err != nil {
				return err
			}
			s.ep.SetSegment(pattern(make([]byte, getSize), 5))
			both.ep.Map(0, s.ep.Name(), 7)
			poll := func() { s.b.Poll() }
			err = judge(n, s, both, func() {
				poll()
				s.ep.Move(both.b) // so that who waits polls for it
			})
			return err
		})
	})
}

// TestReturnAfterPlace: a server that writes the data of a get and returns it too
// has written, and nothing else.
func TestReturnAfterPlace(t *testing.T) {
	for _, writeFirst := range []bool{true, false} {
		w := newWorld(sim.Options{})
		done := false
		w.answerer(func(w *world, nic *vipl.NIC, done *bool) error {
			x, err := acceptOne(w, nic)
			if err == nil {
				err = x.hearMore(w, 1)
			}
			if err != nil {
				return err
			}
			x.say(endpoint.Message(endpoint.KindReplyAnnounce, hReply, 0, x.uses[0], endpoint.TagAll, 0, 0, 5000, nil, nil))
			if err := x.hearMore(w, 2); err != nil {
				return err
			}
			back := endpoint.Message(endpoint.KindReturn, 0, 0, x.uses[0], 0, 0, 0, 0, nil, nil)
			back[3] = uint8(endpoint.ReasonBadTag)
			if writeFirst {
				x.writeWindow(3000)
				x.say(back)
			} else {
				x.say(back)
				x.writeWindow(3000)
			}
			return x.stays(w, done)
		}, &done)
		w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(n *endpoint.Node) error {
			defer func() { done = true }()
			c, err := newParty(n)
			if err != nil {
				return err
			}
			replies := 0
			c.ep.SetSegment(make([]byte, 5000))
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			c.ep.Map(0, w.find("intruder"), 5)
			if err := c.ep.Get(bg, 0, hReply, 0, 0, 5000); err != nil {
				return err
			}
			for range 100 {
				w.Sleep(time.Millisecond)
				c.b.Poll()
			}
			if s := n.Stats(); writeFirst && (replies != 1 || len(c.returned) != 0 || s.Strays != 1) || !writeFirst && (replies != 0 || len(c.returned) != 1) {
				return fmt.Errorf("write first %v: %d replies, %d came back, %d strays", writeFirst, replies, len(c.returned), s.Strays)
			}
			return c.ep.SetSegment(nil)
		})
		if err := w.run(); err != nil {
			t.Fatal(err)
		}
	}
}

// writeWindow writes to the window that was opened last, and says so.
func (x *intruder) writeWindow(size int) bool {
	to, _, _ := x.target()
	to.Addr = x.windowAddr()
	x.segs[intruderReceives] = [1]vipl.Segment{{Data: x.mem[:size], Handle: x.h}}
	x.send = vipl.Descriptor{Op: vipl.OpRDMAWrite, Segs: x.segs[intruderReceives][:], HasImmediate: true, Immediate: 0, Remote: to}
	return x.post() && x.hear()
}

// TestSegmentInHandler: the segment stays while a handler looks at a part of it.
func TestSegmentInHandler(t *testing.T) {
	for _, size := range []int{100, 10_000} {
		oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			c, err := newParty(n)
			if err != nil {
				return err
			}
			var during []error
			for _, p := range []*party{s, c} {
				p.ep.SetSegment(make([]byte, size))
			}
			s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, data []byte) {
				during = append(during, s.ep.SetSegment(nil))
				t.ReplyBulk(hReply, data, 0)
			})
			c.ep.SetHandler(hReply, func(_ endpoint.Token, _ []uint32, data []byte) {
				during = append(during, c.ep.SetSegment(nil))
			})
			c.ep.Map(0, s.ep.Name(), 5)
			if err := c.ep.RequestBulkAsync(0, hBig, make([]byte, size), 0); err != nil {
				return err
			}
			for range 4 {
				s.b.Poll()
				c.b.Poll()
			}
			if len(during) != 2 || !errors.Is(during[0], endpoint.ErrInUse) || !errors.Is(during[1], endpoint.ErrInUse) {
				return fmt.Errorf("with %d bytes, in the handlers: %v", size, during)
			}
			return errors.Join(s.ep.SetSegment(nil), c.ep.SetSegment(nil))
		})
	}
}

// TestBulkKeepsPlace: requests that are corked go before bulk data that is
// asked for after them, although it was announced before.
func TestBulkKeepsPlace(t *testing.T) {
	const bulk = 100
	for shorts := range uint32(3) { // so few that none of them polls
		w := newWorld(sim.Options{})
		var got []uint32
		w.pair(endpoint.Config{}, func(s *party) {
			s.ep.SetSegment(make([]byte, 20_000))
			s.ep.SetHandler(hMute, func(_ endpoint.Token, args []uint32, _ []byte) { got = append(got, args...) })
		}, func(n *endpoint.Node, c *party) error {
			rest := func(poll func()) {
				for range 20 {
					w.Sleep(100 * time.Microsecond)
					poll()
				}
			}
			if err := c.ep.Request(bg, 0, hMute, 0); err != nil { // connects
				return err
			}
			rest(func() { c.b.Poll() })
			if err := c.ep.RequestBulkAsync(0, hMute, make([]byte, 10_000), 0, bulk); err != nil {
				return err
			}
			rest(func() { n.NIC().Poll() }) // it is asked for, and the client has not looked
			var want []uint32
			for i := range shorts {
				if err := c.ep.Request(bg, 0, hMute, i); err != nil {
					return err
				}
				want = append(want, i)
			}
			rest(func() { c.b.Poll() })
			if want = append(append([]uint32{0}, want...), bulk); !slices.Equal(got, want) {
				return fmt.Errorf("handled %d, want %d", got, want)
			}
			return nil
		})
		if err := w.run(); err != nil {
			t.Error(err)
		}
	}
}

// TestBulkMemory: bulk replies that follow each other, each waited for, use the same memory, and not
// as much as there are credits.
func TestBulkMemory(t *testing.T) {
	const size, rounds = 20_000, 20
	for _, short := range []bool{false, true} { // whether requests are
		w := newWorld(sim.Options{})
		var server *party
		w.pair(endpoint.Config{Credits: endpoint.Credits{Short: rounds}}, func(s *party) {
			server = s
			s.ep.SetSegment(make([]byte, size))
			s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) { t.ReplyBulk(hReply, make([]byte, size), 0) })
		}, func(n *endpoint.Node, c *party) error {
			replies := 0
			c.ep.SetSegment(make([]byte, size))
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
			for i := range rounds {
				var err error
				if short {
					err = c.ep.Request(bg, 0, hBig)
				} else {
					err = c.ep.RequestBulk(bg, 0, hBig, make([]byte, size), 0)
				}
				if err == nil {
					err = c.until(n, "a reply", func() bool { return replies > i })
				}
				if err != nil {
					return err
				}
			}
			if kept := server.ep.BounceBytes(); kept < size || kept > 2*size {
				return fmt.Errorf("the server keeps %d bytes for replies of %d, want at most twice as many", kept, size)
			}
			return c.ep.SetSegment(nil)
		})
		if err := w.run(); err != nil {
			t.Errorf("short requests: %v: %v", short, err)
		}
	}
}
