package progress

import (
	"encoding/binary"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
)

// counter is a small machine: each frame that arrives names a mailbox, whose count
// goes up and whose gate opens.
type counter struct {
	e       Engine
	link    transport.Link
	views   [][]byte
	boxes   [4]box
	timer   int64 // when box 0's count goes up by itself, or Forever
	idles   int
	polls   int
	failed  error
	wakeErr error
}

type box struct {
	count int
	gate  Gate
}

func newCounter(link transport.Link, cfg *Config) *counter {
	c := &counter{link: link, views: make([][]byte, 8), timer: transport.Forever}
	c.e.Init(link, c, cfg)
	return c
}

func (c *counter) Poll(now int64) bool {
	c.polls++
	n, _ := c.link.Recv(c.views)
	for _, frame := range c.views[:n] {
		c.add(int(frame[ethertype.HeaderSize]) % len(c.boxes))
	}
	if now >= c.timer {
		c.timer = transport.Forever
		c.add(0)
	}
	return n > 0
}

func (c *counter) add(i int) {
	c.boxes[i].count++
	c.boxes[i].gate.Open(&c.e)
}

func (c *counter) Idle()            { c.idles++ }
func (c *counter) NextTimer() int64 { return c.timer }
func (c *counter) Woke(err error)   { c.wakeErr = err }
func (c *counter) Failed() error    { return c.failed }

// frameTo is a frame for a mailbox of to's.
func frameTo(from, to transport.Info, mailbox byte) transport.Frame {
	head := make([]byte, ethertype.HeaderSize+1)
	o := framing.Outer{Dst: to.MAC, Src: from.MAC, Type: to.EtherType, DstPort: to.Ports.Lo, SrcPort: from.Ports.Lo}
	o.Put(head)
	binary.BigEndian.PutUint16(head[54:], 1)
	head[ethertype.HeaderSize] = mailbox
	return transport.Frame{Head: head}
}

// pair is a counter on one station of a simulated segment, and another station.
func pair(t *testing.T) (w *sim.World, c *counter, peer *sim.Station) {
	t.Helper()
	w = sim.New(sim.Options{Seed: 1})
	c = newCounter(w.Station("counter"), nil)
	return w, c, w.Station("peer")
}

// post sends a frame for each mailbox from peer.
func (c *counter) post(t *testing.T, peer *sim.Station, mailboxes ...byte) {
	t.Helper()
	for _, m := range mailboxes {
		if n, err := peer.Send([]transport.Frame{frameTo(peer.Info(), c.link.Info(), m)}); n != 1 || err != nil {
			t.Errorf("send: %d, %v", n, err)
		}
	}
}
