package endpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
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

// TestClosedSaysWhat: ErrClosed says what has been closed or freed.
func TestClosedSaysWhat(t *testing.T) {
	oneNode(t, endpoint.Config{}, func(n *endpoint.Node) error {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			what string
			free func() error
		}{{"the endpoint has been freed", p.ep.Free}, {"the bundle has been freed", p.b.Free}, {"the node has been closed", n.Close}} {
			if err := c.free(); err != nil {
				return err
			}
			for _, err := range []error{p.ep.Request(bg, 0, hEcho), p.ep.Map(0, p.ep.Name(), 1), p.ep.Publish("word")} {
				if !errors.Is(err, endpoint.ErrClosed) || !strings.Contains(err.Error(), c.what) {
					return fmt.Errorf("%s, and the error is: %w", c.what, err)
				}
			}
		}
		return nil
	})
}

// parting is two nodes with many endpoints each, of which each has a connection with one of the
// other node. The server closes, and then the client does.
type parting struct {
	*world
	names    []endpoint.Name
	answered int
	gone     bool // the other one
}

const partings = 60

// TestCloseManyEndpoints closes a node of many endpoints, of which each has a connection whose
// other end has gone, so that its receives are entries of the node's completion queue. As in
// TestCloseManyVIs of package vipl, steps are the entries that are gone through when some
// leave the queue. In all they must be in proportion to the entries, and not to their square.
func TestCloseManyEndpoints(t *testing.T) {
	w := &parting{world: newWorld(sim.Options{Seed: 1})}
	w.node("server", endpoint.Config{}, w.serve)
	w.node("client", endpoint.Config{}, w.ask)
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// serve has each endpoint answer once.
func (w *parting) serve(n *endpoint.Node) error {
	var parties []*party
	for range partings {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		p.ep.SetHandler(hEcho, func(t endpoint.Token, args []uint32, _ []byte) { t.Reply(hReply, args...) })
		parties = append(parties, p)
	}
	for _, p := range parties {
		w.names = append(w.names, p.ep.Name())
	}
	if err := w.talk(parties); err != nil {
		return err
	}
	err := n.Close()
	w.gone = true
	return err
}

// ask has each endpoint ask one of the server's.
func (w *parting) ask(n *endpoint.Node) error {
	for len(w.names) < partings {
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	var parties []*party
	for _, to := range w.names {
		p, err := newParty(n)
		if err != nil {
			return err
		}
		p.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { w.answered++ })
		if err := p.ep.Map(0, to, endpoint.TagAll); err != nil {
			return err
		}
		if err := p.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		parties = append(parties, p)
	}
	if err := w.talk(parties); err != nil {
		return err
	}
	for !w.gone || connected(n) > 0 {
		n.NIC().Poll() // which takes nothing from the completion queue
		if err := w.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	return closeCounted(n)
}

// talk polls until all answers have come.
func (w *parting) talk(parties []*party) error {
	for w.answered < partings {
		for _, p := range parties {
			if _, err := p.b.Poll(); err != nil {
				return err
			}
		}
		if err := w.Sleep(20 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// closeCounted closes a node, and returns an error if that takes too many steps.
func closeCounted(n *endpoint.Node) error {
	m := endpoint.MeterCloses(n)
	if m.Entries < partings {
		return fmt.Errorf("%d entries show nothing", m.Entries)
	}
	if err := n.Close(); err != nil {
		return err
	}
	if limit := 4 * m.Entries; m.Steps > limit || m.Closed != partings {
		return fmt.Errorf("%d steps to close %d connections with %d entries, want %d at the most", m.Steps, m.Closed, m.Entries, limit)
	}
	return nil
}

// connected returns how many VIs of a node's NIC are connected.
func connected(n *endpoint.Node) (count int) {
	for _, v := range n.NIC().Snapshot().VIs {
		if v.State == vipl.StateConnected {
			count++
		}
	}
	return count
}

// TestInterfaceGone: a server that waits for messages ends when its interface is gone.
func TestInterfaceGone(t *testing.T) {
	p := vethtest.New(t, 1500)
	var nic *vipl.NIC
	err := p.In(0, func() (err error) {
		nic, err = vipl.Open(t.Context(), &vipl.Config{Interface: vethtest.Name})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	n, err := endpoint.Open(t.Context(), &endpoint.Config{NIC: nic, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	b, err := n.NewBundle(endpoint.Parallel)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetEventMask(endpoint.NotEmpty); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- b.Wait(bg) }()
	go func() { _, err := n.Find(bg, "nobody"); ended <- err }()
	if err := p.Delete(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; !errors.Is(err, transport.ErrGone) {
			t.Errorf("%v, want ErrGone", err)
		}
	}
}
