package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// TestCloseDelivers: a server that closes its node as soon as it has answered
// does not take its last answers along, of whatever kind they are, however many
// of their frames are lost.
func TestCloseDelivers(t *testing.T) {
	const asked = 3
	seeds(t, 200, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.2, Delay: 5 * time.Microsecond})
		w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			answered := 0
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
				answered++
				switch args[0] {
				case 0:
					t.Reply(hReply, args...)
				case 1:
					t.ReplyMedium(hReply, make([]byte, 1000), args...)
				case 2:
					t.ReplyBulk(hReply, make([]byte, 5000), 0, args...)
				}
			})
			w.board["server"] = s.ep.Name()
			return s.until(n, "requests", func() bool { return answered == asked })
		})
		w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			got := 0
			c.ep.SetSegment(make([]byte, 5000))
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { got++ })
			if err := c.ep.Map(0, w.find("server"), 7); err != nil {
				return err
			}
			for i := range uint32(asked) {
				if err := c.ep.Request(bg, 0, hEcho, i); err != nil {
					return err
				}
			}
			err = c.until(n, "answers", func() bool { return got+len(c.returned) == asked })
			if err == nil && len(c.returned) > 0 {
				err = fmt.Errorf("%d answers, and came back: %+v", got, c.returned)
			}
			return err
		})
		return w.run()
	})
}

// TestCloseDeliversBesideWait: the same in virtual time while another process of the server
// waits on its node, for which it takes in what comes.
func TestCloseDeliversBesideWait(t *testing.T) {
	const asked = 3
	seeds(t, 100, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.2, Delay: 5 * time.Microsecond})
		w.node("server", endpoint.Config{}, func(n *endpoint.Node) error {
			s, err := newParty(n)
			if err != nil {
				return err
			}
			other, err := newParty(n)
			if err != nil {
				return err
			}
			answered, ended := 0, false
			s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
				answered++
				t.ReplyMedium(hReply, make([]byte, 1000), args...)
			})
			w.Go("waiter", func() {
				var err error
				for err == nil {
					_, err = other.b.WaitPoll(bg)
				}
				if ended = true; !errors.Is(err, endpoint.ErrClosed) {
					w.errs = append(w.errs, fmt.Errorf("the wait ended with %w", err))
				}
			})
			w.board["server"] = s.ep.Name()
			for answered < asked && w.Sleep(20*time.Microsecond) == nil {
				if _, err := s.b.Poll(); err != nil {
					return err
				}
			}
			if err := n.Close(); err != nil || !ended {
				return fmt.Errorf("closed: %v; the waiter has left: %v", err, ended)
			}
			return nil
		})
		w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
			c, err := newParty(n)
			if err != nil {
				return err
			}
			got := 0
			c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { got++ })
			if err := c.ep.Map(0, w.find("server"), 7); err != nil {
				return err
			}
			for i := range uint32(asked) {
				if err := c.ep.Request(bg, 0, hEcho, i); err != nil {
					return err
				}
			}
			err = c.until(n, "answers", func() bool { return got+len(c.returned) == asked })
			if err == nil && len(c.returned) > 0 {
				err = fmt.Errorf("%d answers, and came back: %+v", got, c.returned)
			}
			return err
		})
		return w.run()
	})
}

// TestLastWords: what a client has sent before it closed its node is handled, in order, by a
// server whose bundle is polled only when the news of the end has come, too. What needs more of the
// client than has come, as a long bulk request does, ends without a handler.
func TestLastWords(t *testing.T) {
	cfg := endpoint.Config{Credits: endpoint.Credits{Short: 64}}
	seeds(t, 200, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: float64(seed%3) / 10, Delay: 5 * time.Microsecond})
		closed := false
		w.node("server", cfg, func(n *endpoint.Node) error { return w.hearLast(n, &closed) })
		w.node("client", cfg, func(n *endpoint.Node) error {
			defer func() { closed = true }()
			return w.sayLast(n)
		})
		return w.run()
	})
}

const lastWords = 10

// hearLast hears the first word at once, and the others when the client has closed its node.
func (w *world) hearLast(n *endpoint.Node, closed *bool) error {
	s, err := newParty(n)
	if err != nil {
		return err
	}
	other, err := newParty(n)
	if err != nil {
		return err
	}
	s.ep.SetSegment(make([]byte, 100_000))
	heard := uint32(0)
	var wrong error
	s.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) {
		if args[0] != heard {
			wrong = fmt.Errorf("heard %d in the place of %d", args[0], heard)
		}
		heard++
		t.Reply(hReply, args...)
	})
	w.board["server"] = s.ep.Name()
	if err := s.until(n, "a first word", func() bool { return heard == 1 }); err != nil {
		return err
	}
	for after := 0; after < 20; { // the news of the end comes a little later
		if *closed {
			after++
		}
		if _, err := other.b.Poll(); err != nil {
			return err
		}
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	if err := s.until(n, "the last words", func() bool { return heard == lastWords }); err != nil {
		return fmt.Errorf("%d of %d: %w", heard, lastWords, err)
	}
	return wrong
}

// sayLast says the first word, waits for its answer, says the others, and closes the node.
func (w *world) sayLast(n *endpoint.Node) error {
	c, err := newParty(n)
	if err != nil {
		return err
	}
	if err := c.ep.Map(0, w.find("server"), 7); err != nil {
		return err
	}
	got := 0
	c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { got++ })
	if err := c.ep.Request(bg, 0, hEcho, 0); err != nil {
		return err
	}
	if err := c.until(n, "an answer", func() bool { return got == 1 }); err != nil {
		return err
	}
	for i := uint32(1); i < lastWords; i++ {
		size := []int{0, 100, 3000}[i%3]
		if err := c.ep.RequestMedium(bg, 0, hEcho, make([]byte, size), i); err != nil {
			return err
		}
	}
	err = c.ep.RequestBulkAsync(0, hEcho, make([]byte, 100_000), 0, lastWords)
	return errors.Join(err, n.Close())
}

// TestCloseWhileWaiting: closing a node gets a goroutine that waits out of the
// way, whenever it has begun.
func TestCloseWhileWaiting(t *testing.T) {
	for range 20 {
		nics := linkNICs(t, "udp", func(_ int, l transport.Link) transport.Link { return l })
		n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nics[0], Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		p, err := newParty(n)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			_, err := p.b.WaitPoll(bg)
			ended <- err
		}()
		runtime.Gosched() // so that either may be first
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, endpoint.ErrClosed) {
			t.Fatalf("the wait ended with %v", err)
		}
	}
}

// TestNICCloses: a program that closes its NIC before its node gets back what it
// had sent, as it was, and then hears that the node is closed.
func TestNICCloses(t *testing.T) {
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
	}, func(n *endpoint.Node, c *party) error {
		if err := c.ep.RequestMedium(bg, 0, 99, payload, 1, 2, 3); err != nil {
			return err
		}
		n.NIC().Close()
		var err error
		for err == nil {
			_, err = c.b.WaitPoll(bg)
		}
		if !errors.Is(err, endpoint.ErrClosed) || len(c.returned) != 1 {
			return fmt.Errorf("%d came back, and then: %w", len(c.returned), err)
		}
		if r := &c.returned[0]; r.Handler != 99 || !slices.Equal(r.Args, []uint32{1, 2, 3}) || !bytes.Equal(r.Data, payload) {
			return fmt.Errorf("it came back as %+v", r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNICClosesInTraffic: nothing happens but that the calls end when the NICs are
// closed under nodes that are busy.
func TestNICClosesInTraffic(t *testing.T) {
	for range 20 {
		nics := linkNICs(t, "udp", func(_ int, l transport.Link) transport.Link { return l })
		var parties [2]*party
		for i := range parties {
			n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nics[i], Logger: quiet})
			if err != nil {
				t.Fatal(err)
			}
			if parties[i], err = newParty(n); err != nil {
				t.Fatal(err)
			}
		}
		s, c := parties[0], parties[1]
		busy, ended := make(chan struct{}), make(chan error, 2)
		served := 0
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) {
			if t.Reply(hReply); served == 200 {
				close(busy)
			}
			served++
		})
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		c.ep.Map(0, s.ep.Name(), 7)
		go func() {
			var err error
			for err == nil {
				_, err = s.b.WaitPoll(bg)
			}
			ended <- err
		}()
		go func() {
			var err error
			for err == nil {
				err = c.ep.Request(bg, 0, hEcho)
			}
			ended <- err
		}()
		<-busy
		nics[0].Close()
		nics[1].Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, endpoint.ErrClosed) {
				t.Errorf("a call ended with %v", err)
			}
		}
	}
}
