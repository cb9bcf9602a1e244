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

// TestHostileServer: whatever a server answers is counted, and each request
// ends once at most.
func TestHostileServer(t *testing.T) {
	seeds(t, sieges, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Limit: 10 * time.Minute})
		var node *endpoint.Node
		done := false
		w.Go("intruder", func() {
			nic, err := vipl.Open(&vipl.Config{Link: w.Station("intruder"), Seed: seed + 1})
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
			before := (*node).Stats()
			msg := x.mutant(endpoint.TagAll, endpoint.ServerKinds)
			if !x.say(msg) {
				break
			}
			if err := account(w, *node, taken(&before), msg, func(kind uint8) bool {
				return kind == endpoint.KindClear || kind == endpoint.KindDone || kind == endpoint.KindReplyAnnounce
			}); err != nil {
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
	w.Go("intruder", func() {
		nic, err := vipl.Open(&vipl.Config{Link: w.Station("intruder"), Seed: 2})
		if err == nil {
			err = answerTwice(w, nic, &done)
			nic.Close()
		}
		if err != nil {
			w.errs = append(w.errs, err)
		}
	})
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

// answerTwice answers each request, from the second on after the answer before
// has come once more, and after that the end of the request before.
func answerTwice(w *world, nic *vipl.NIC, done *bool) error {
	x, err := newIntruder(nic, 1)
	if err != nil {
		return err
	}
	l, err := nic.Listen(0)
	if err != nil {
		return err
	}
	w.board["intruder"] = endpoint.Name{Addr: l.Addr(), ID: 1, Incarnation: 1}
	r, err := l.Wait(bg)
	if err != nil {
		return err
	}
	if err := x.newVI(); err != nil {
		return err
	}
	if err := r.Accept(bg, x.vi); err != nil {
		return err
	}
	var last []byte
	for k := uint32(1); k <= 3; k++ {
		for x.heard < int(k) {
			w.Sleep(50 * time.Microsecond)
			if !x.hear() {
				return errors.New("the client has left")
			}
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
