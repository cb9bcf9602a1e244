package endpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestHostileServer: whatever a server answers is counted, and each request
// ends once at most.
func TestHostileServer(t *testing.T) {
	seeds(t, sieges, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Limit: 10 * time.Minute})
		var node *endpoint.Node
		done := false
		w.Go("intruder", func() {
			nic, err := vipl.Open(t.Context(), &vipl.Config{Link: w.Station("intruder"), Seed: seed + 1})
			if err == nil {
				err = serveBadly(w, nic, seed, &node)
				nic.Close()
			}
			done = true
			if err != nil {
				w.errs = append(w.errs, err)
			}
		})
		w.node("client", endpoint.Config{PeerTimeout: time.Second}, func(n *endpoint.Node) error {
			node = n
			c, err := newParty(n)
			if err != nil {
				return err
			}
			returned := uint64(0)
			c.ep.SetReturnHandler(func(*endpoint.Returned) { returned++ })
			arena := bytes.Repeat([]byte{0xA5}, 3000)
			c.ep.SetSegment(arena[1000:2000:2000])
			for h := uint8(10); h < 14; h++ {
				c.ep.SetHandler(h, func(t endpoint.Token, args []uint32, data []byte) {})
			}
			c.ep.Map(0, w.find("intruder"), 5)
			big := make([]byte, 6000)
			for i := uint32(0); !done; i++ {
				ctx, cancel := n.NIC().WithTimeout(bg, time.Second)
				err := sendSomeWithin(ctx, c, i, big)
				cancel()
				if err != nil && !done {
					return err
				}
			}
			s := n.Stats()
			if s.Replies+returned > s.Sent || s.Panics > 0 {
				return fmt.Errorf("%d requests had %d replies, %d came back, %d panics", s.Sent, s.Replies, returned, s.Panics)
			}
			if guard := bytes.Repeat([]byte{0xA5}, 1000); !bytes.Equal(arena[:1000], guard) || !bytes.Equal(arena[2000:], guard) {
				return errors.New("memory outside the segment was written")
			}
			return nil
		})
		return w.run()
	})
}

// serveBadly accepts connections and answers by mutants.
func serveBadly(w *world, nic *vipl.NIC, seed uint64, node **endpoint.Node) error {
	x, err := newIntruder(nic, seed)
	if err != nil {
		return err
	}
	l, err := nic.Listen(0)
	if err != nil {
		return err
	}
	w.board["intruder"] = endpoint.Name{Addr: l.Addr(), ID: 1, Incarnation: 1}
	for left := share(); left > 0; {
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		if err := x.newVI(); err != nil {
			return err
		}
		if r.Accept(bg, x.vi) != nil {
			continue
		}
		for range 20 + x.rng.IntN(400) {
			left--
			if x.rng.IntN(50) == 0 {
				if !x.write() {
					break
				}
				w.Sleep(20 * time.Microsecond)
				continue
			}
			silent := func(kind uint8) bool {
				return kind == endpoint.KindClear || kind == endpoint.KindDone || kind == endpoint.KindReplyAnnounce
			}
			before := tallyOf(*node, silent)
			msg := x.mutant(endpoint.TagAll, endpoint.ServerKinds)
			if !x.say(msg) {
				break
			}
			if err := account(w, *node, before, msg, silent); err != nil {
				return err
			}
		}
		x.vi.Disconnect()
	}
	return nil
}

// TestAnswerTwice: a server that answers a request twice does not answer the next
// one in the same slot.
func TestAnswerTwice(t *testing.T) {
	w := newWorld(sim.Options{})
	done := false
	w.answerer(answerTwice, &done)
	w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: 1}}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		var got []uint32
		c.ep.SetHandler(hReply, func(_ endpoint.Token, args []uint32, _ []byte) { got = append(got, args...) })
		c.ep.Map(0, w.find("intruder"), 5)
		for range 3 {
			if err := c.ep.Request(bg, 0, hEcho); err != nil {
				return err
			}
		}
		if err := c.until(n, "replies", func() bool { return len(got) == 3 }); err != nil {
			return err
		}
		if strays := n.Stats().Strays; strays != 4 || !slices.Equal(got, []uint32{1, 2, 3}) {
			return fmt.Errorf("replies to requests %v, %d strays", got, strays)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// answerer runs answer as a process with a NIC of its own.
func (w *world) answerer(answer func(w *world, nic *vipl.NIC, done *bool) error, done *bool) {
	w.Go("intruder", func() {
		nic, err := vipl.Open(context.Background(), &vipl.Config{Link: w.Station("intruder"), Seed: 2})
		if err == nil {
			err = answer(w, nic, done)
			nic.Close()
		}
		if err != nil {
			w.errs = append(w.errs, err)
		}
	})
}

// answerTwice answers each request, from the second on after the answer before
// has come once more, and after that the end of the request before.
func answerTwice(w *world, nic *vipl.NIC, done *bool) error {
	x, err := acceptOne(w, nic)
	if err != nil {
		return err
	}
	var last []byte
	for k := uint32(1); k <= 3; k++ {
		if err := x.hearMore(w, int(k)); err != nil {
			return err
		}
		if last != nil {
			x.say(last)
			last[0] = endpoint.KindDone
			x.say(last)
		}
		last = endpoint.Message(endpoint.ServerKinds[0], hReply, 0, x.uses[0], endpoint.TagAll, 0, 0, 0, []uint32{k}, nil)
		x.say(last)
	}
	for !*done {
		w.Sleep(time.Millisecond)
		x.hear()
	}
	return nil
}

// acceptOne makes an intruder that has accepted a connection.
func acceptOne(w *world, nic *vipl.NIC) (*intruder, error) {
	x, err := newIntruder(nic, 1)
	if err != nil {
		return nil, err
	}
	l, err := nic.Listen(0)
	if err != nil {
		return nil, err
	}
	w.board["intruder"] = endpoint.Name{Addr: l.Addr(), ID: 1, Incarnation: 1}
	r, err := l.Wait(bg)
	if err != nil {
		return nil, err
	}
	if err := x.newVI(); err != nil {
		return nil, err
	}
	return x, r.Accept(bg, x.vi)
}

// hearMore waits until so many messages have come.
func (x *intruder) hearMore(w *world, messages int) error {
	for x.heard < messages {
		w.Sleep(50 * time.Microsecond)
		if !x.hear() {
			return errors.New("the client has left")
		}
	}
	return nil
}

// TestReturnWithoutReason: no request comes back for no reason.
func TestReturnWithoutReason(t *testing.T) {
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
		for _, kind := range []uint8{endpoint.KindReturn, endpoint.ServerKinds[0]} {
			x.say(endpoint.Message(kind, hReply, 0, x.uses[0], endpoint.TagAll, 0, 0, 0, nil, nil))
		}
		for !*done {
			w.Sleep(time.Millisecond)
			x.hear()
		}
		return nil
	}, &done)
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) { replies++ })
		c.ep.Map(0, w.find("intruder"), 5)
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the end", func() bool { return replies+len(c.returned) > 0 }); err != nil {
			return err
		}
		if strays := n.Stats().Strays; strays != 1 || replies != 1 {
			return fmt.Errorf("%d replies, %d came back, %d strays", replies, len(c.returned), strays)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestEndInHandler: a server that ends a request while the client handles its
// reply does not give the client another credit.
func TestEndInHandler(t *testing.T) {
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
		for _, kind := range []uint8{endpoint.ServerKinds[0], endpoint.KindDone} {
			x.say(endpoint.Message(kind, hReply, 0, x.uses[0], endpoint.TagAll, 0, 0, 0, nil, nil))
		}
		for !*done {
			w.Sleep(time.Millisecond)
			x.hear()
		}
		return nil
	}, &done)
	const credits = 2
	w.node("client", endpoint.Config{Credits: endpoint.Credits{Short: credits}}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		other, err := newParty(n)
		if err != nil {
			return err
		}
		replies := 0
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {
			for range 20 { // somebody else takes in what comes
				w.Sleep(50 * time.Microsecond)
				other.b.Poll()
			}
			replies++
		})
		c.ep.Map(0, w.find("intruder"), 5)
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		if err := c.until(n, "the reply", func() bool { return replies > 0 }); err != nil {
			return err
		}
		sent := 0
		for ; sent < 10; sent++ {
			if err = c.ep.RequestBulkAsync(0, hEcho, nil, 0); err != nil {
				break
			}
		}
		if !errors.Is(err, endpoint.ErrInUse) || sent != credits || n.Stats().Strays != 1 {
			return fmt.Errorf("%d requests with %d credits, %d strays: %w", sent, credits, n.Stats().Strays, err)
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestRefuseWithoutReason: nor does a reply.
func TestRefuseWithoutReason(t *testing.T) {
	var server *party
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
	}, func(n *endpoint.Node, c *party) error {
		to, _, _ := c.ep.Translation(0)
		x, err := newIntruder(n.NIC(), 1)
		if err != nil {
			return err
		}
		if err := x.newVI(); err != nil {
			return err
		}
		if err := x.vi.Connect(bg, to.Addr, endpoint.HelloFor(c.ep.Name(), to, 4)); err != nil {
			return err
		}
		x.say(endpoint.Message(endpoint.ClientKinds[0], hEcho, 0, 1, 0, 0, 0, 0, nil, nil))
		x.say(endpoint.Message(endpoint.KindRefuse, 0, 0, 1, 0, 0, 0, 0, nil, nil))
		for range 20 {
			ctx, cancel := n.NIC().WithTimeout(bg, time.Millisecond)
			c.b.WaitPoll(ctx)
			cancel()
		}
		s := serverNode(server).Stats()
		if s.Requests != 1 || s.Strays != 1 || s.Returns != 0 || len(server.returned) > 0 {
			return fmt.Errorf("%d requests, %d strays, %d refusals, %d replies came back", s.Requests, s.Strays, s.Returns, len(server.returned))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
