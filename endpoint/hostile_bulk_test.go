package endpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// Peers that do not keep to the order in which bulk data is announced, asked for
// and written.

// opens registers mem and returns the window that says where it is.
func (x *intruder) opens(mem []byte) ([]byte, error) {
	h, err := x.nic.RegisterMem(mem, &vipl.MemAttributes{EnableRDMAWrite: true})
	b := make([]byte, windowKnown)
	binary.LittleEndian.PutUint64(b, vipl.VirtualAddress(mem))
	binary.LittleEndian.PutUint32(b[8:], uint32(h))
	return b, err
}

// stays hears what comes until done.
func (x *intruder) stays(w *world, done *bool) error {
	for !*done {
		if err := w.Sleep(time.Millisecond); err != nil {
			return err
		}
		x.hear()
	}
	return nil
}

// TestClearTwice: a server that asks twice for the data of a bulk request gets it
// once.
func TestClearTwice(t *testing.T) {
	w := newWorld(sim.Options{})
	done := false
	data, mem := pattern(make([]byte, 20_000), 1), make([]byte, 40_000)
	w.answerer(func(w *world, nic *vipl.NIC, done *bool) error {
		x, err := acceptOne(w, nic)
		if err == nil {
			err = x.hearMore(w, 1)
		}
		if err != nil {
			return err
		}
		use := x.uses[0]
		for _, at := range []int{0, len(data)} {
			window, err := x.opens(mem[at:][:len(data)])
			if err != nil {
				return err
			}
			x.say(endpoint.Message(endpoint.KindClear, 0, 0, use, 0, 0, 0, 0, nil, window))
		}
		x.say(endpoint.Message(endpoint.KindDone, 0, 0, use, 0, 0, 0, 0, nil, nil))
		return x.stays(w, done)
	}, &done)
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.Map(0, w.find("intruder"), 5)
		if err := c.ep.RequestBulkAsync(0, hMute, data, 0); err != nil {
			return err
		}
		for range 50 {
			w.Sleep(time.Millisecond)
			if _, err := c.b.Poll(); err != nil {
				return err
			}
		}
		if s := n.Stats(); s.Strays != 1 || s.Broken != 0 || len(c.returned) > 0 {
			return fmt.Errorf("%d strays, %d connections broke, %d requests came back", s.Strays, s.Broken, len(c.returned))
		}
		if !bytes.Equal(mem[:len(data)], data) || !bytes.Equal(mem[len(data):], make([]byte, len(data))) {
			return errors.New("the data is not at the first place, or at the second too")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestRefuseUnanswered: a client can refuse a reply, once; but not what was no
// reply.
func TestRefuseUnanswered(t *testing.T) {
	var server *party
	err := pair(sim.Options{}, endpoint.Config{}, func(s *party) {
		server = s
		s.ep.SetHandler(hMute, func(endpoint.Token, []uint32, []byte) {})
		s.ep.SetHandler(hEcho, func(t endpoint.Token, _ []uint32, _ []byte) { t.Reply(hReply) })
	}, func(n *endpoint.Node, c *party) error {
		x, err := c.intrude(n, 4)
		if err != nil {
			return err
		}
		refuse := func(slot uint16) {
			msg := endpoint.Message(endpoint.KindRefuse, 0, slot, 1+uint32(slot), 0, 0, 0, 0, nil, nil)
			msg[3] = uint8(endpoint.ReasonBadTag)
			x.say(msg)
		}
		for slot, handler := range []uint8{hMute, hEcho} {
			x.say(endpoint.Message(endpoint.ClientKinds[0], handler, uint16(slot), 1+uint32(slot), 0, 0, 0, 0, nil, nil))
		}
		for _, slot := range []uint16{0, 1, 1} {
			for range 5 {
				ctx, cancel := n.NIC().WithTimeout(bg, time.Millisecond) // the server handles what came before
				c.b.WaitPoll(ctx)
				cancel()
			}
			refuse(slot)
		}
		for range 5 {
			ctx, cancel := n.NIC().WithTimeout(bg, time.Millisecond)
			c.b.WaitPoll(ctx)
			cancel()
		}
		s := serverNode(server).Stats()
		if s.Requests != 2 || s.Returns != 1 || s.Strays != 2 || len(server.returned) != 1 || server.returned[0].Op != endpoint.OpReply {
			return fmt.Errorf("%d requests, %d refusals, %d strays, %d replies came back: %+v", s.Requests, s.Returns, s.Strays, len(server.returned), server.returned)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestServerLeavesUnderGrant: a server that leaves when it has announced a bulk
// reply and may write it leaves no right behind: the segment can be changed.
func TestServerLeavesUnderGrant(t *testing.T) {
	w := newWorld(sim.Options{})
	done, leave := false, false
	w.answerer(func(w *world, nic *vipl.NIC, done *bool) error {
		x, err := acceptOne(w, nic)
		if err == nil {
			err = x.hearMore(w, 1)
		}
		if err != nil {
			return err
		}
		x.say(endpoint.Message(endpoint.KindReplyAnnounce, hReply, 0, x.uses[0], endpoint.TagAll, 0, 0, 10_000, nil, nil))
		if err := x.stays(w, &leave); err != nil {
			return err
		}
		x.vi.Disconnect()
		return x.stays(w, done)
	}, &done)
	w.node("client", endpoint.Config{}, func(n *endpoint.Node) error {
		defer func() { done = true }()
		c, err := newParty(n)
		if err != nil {
			return err
		}
		c.ep.SetSegment(make([]byte, 20_000))
		c.ep.SetHandler(hReply, func(endpoint.Token, []uint32, []byte) {})
		c.ep.Map(0, w.find("intruder"), 5)
		if err := c.ep.Request(bg, 0, hEcho); err != nil {
			return err
		}
		inUse := func() bool { return errors.Is(c.ep.SetSegment(make([]byte, 20_000)), endpoint.ErrInUse) }
		for range 50 {
			w.Sleep(time.Millisecond)
			c.b.Poll()
		}
		if !inUse() {
			return errors.New("nothing was granted: this tests nothing")
		}
		leave = true
		if err := c.until(n, "the return", func() bool { return len(c.returned) > 0 }); err != nil {
			return err
		}
		if inUse() {
			return errors.New("the right to write to the segment is still given")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

// TestAskedAgainUnderWrite: a client that asks again in a slot whose bulk reply
// is still on its way gets that as it was.
func TestAskedAgainUnderWrite(t *testing.T) {
	const size = 50_000
	w := newWorld(sim.Options{Bandwidth: 10_000_000}) // it takes 40 ms
	replies := 0
	w.pair(endpoint.Config{}, func(s *party) {
		s.ep.SetHandler(hBig, func(t endpoint.Token, _ []uint32, _ []byte) {
			replies++
			t.ReplyBulk(hReply, pattern(make([]byte, size), replies), 0)
		})
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
		mem := make([]byte, size)
		window, err := x.opens(mem)
		if err != nil {
			return err
		}
		rest := func(ms int) {
			for range ms {
				w.Sleep(time.Millisecond)
				n.NIC().Poll()
			}
		}
		ask := func(use uint32) {
			x.say(endpoint.Message(endpoint.ClientKinds[0], hBig, 0, use, 0, 0, 0, 0, nil, nil))
			rest(5)
		}
		ask(1)
		x.say(endpoint.Message(endpoint.KindClear, 0, 0, 1, 0, 0, 0, 0, nil, window))
		rest(5)
		ask(2)
		if replies != 2 || mem[size-1] != 0 {
			return fmt.Errorf("%d replies, and the first is there: this tests nothing", replies)
		}
		rest(100)
		if !bytes.Equal(mem, pattern(make([]byte, size), 1)) {
			return errors.New("the first reply is not what was sent")
		}
		return nil
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}
