package hardware

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// sendEngine moves one packet at a time from SRAM to the link.
type sendEngine struct {
	c        *Card
	busy     bool
	packet   []byte // that it has not launched
	launchAt int64
	launch   func()
}

func (e *sendEngine) init(c *Card) {
	e.c = c
	e.launch = e.onLaunch
}

// onLaunch is the event of a packet's departure. One that comes before its time is of a
// program that was replaced.
func (e *sendEngine) onLaunch() {
	packet := e.packet
	if packet == nil || e.c.world != nil && e.c.world.Now() < e.launchAt {
		return
	}
	e.packet = nil
	end := len(packet) - framing.FabricCRCSize
	packet[end] = framing.UpdateCRC8(0, packet[:end])
	if e.c.wire.Send(packet) {
		e.c.stats.PacketsOut++
		e.c.stats.OctetsOut += uint64(len(packet))
		return
	}
	e.c.stats.Refused++
	e.busy = false
	e.c.notify()
}

// reset forgets a packet that is not on the wire.
func (e *sendEngine) reset() {
	if e.packet != nil {
		e.packet, e.busy = nil, false
	}
}

// Send starts the send engine: packet, which lies in SRAM, is a route, a type, a payload,
// and an octet for the CRC-8, which the engine computes. It is the engine's until Sending
// is false. Send reports false while the engine is busy with the packet before, and for
// one that is too short for a packet. One that is too long for the link is counted as
// CardStats.Refused.
func (c *Card) Send(packet []byte) bool {
	e := &c.out
	if e.busy || len(packet) < framing.FabricLeast {
		return false
	}
	e.busy, e.packet, e.launchAt = true, packet, c.Now()
	c.beginAt(e.launchAt, e.launch)
	return true
}

// Sending reports whether the send engine is busy.
func (c *Card) Sending() bool { return c.out.busy }

// Sent implements Host.
func (c *Card) Sent() {
	c.out.busy = false
	c.notify()
}

// maxPosted is the most receive buffers that a card can have, posted and filled.
const maxPosted = 256

// recvEngine moves packets from the link to buffers in SRAM, in the order in which these
// were posted.
type recvEngine struct {
	c       *Card
	posted  fifo.Queue[[]byte]
	filled  fifo.Queue[Received]
	coming  bool // a packet comes for which a buffer was posted
	blocked bool // one waits for a buffer
	resume  func()
}

// Received is a packet that has come.
type Received struct {
	Type    uint16
	Payload []byte // part of Buffer
	Buffer  []byte // as it was posted
}

func (e *recvEngine) init(c *Card) {
	e.c = c
	e.resume = func() { c.wire.Resume() }
}

// reset forgets all buffers. A packet that waits for one goes on waiting.
func (e *recvEngine) reset() {
	e.coming = false
	for e.posted.Len() > 0 {
		e.posted.Pop()
	}
	for e.filled.Len() > 0 {
		e.filled.Pop()
	}
}

// Post gives the receive engine a buffer in SRAM, for one packet with its type and CRC-8.
// It is the engine's until Receive returns it. It reports false when the engine has as
// many as it can.
func (c *Card) Post(buffer []byte) bool {
	e := &c.in
	if e.posted.Len()+e.filled.Len() >= maxPosted || len(buffer) < framing.FabricLeast {
		return false
	}
	e.posted.Push(buffer)
	if e.blocked {
		e.blocked = false
		c.beginAt(c.Now(), e.resume)
	}
	return true
}

// Loop has a packet arrive at the card that sends it: a type, a payload, and an octet for the CRC-8. It
// does not pass the wire, and takes no time. Loop reports false while there is no receive buffer that
// the wire can spare, and for a packet that is too long for one.
func (c *Card) Loop(packet []byte) bool {
	posted := &c.in.posted
	if len(packet) < framing.FabricLeast || posted.Len() < 2 || len(packet) > len(*posted.At(1)) {
		return false
	}
	first, second := posted.At(0), posted.At(1)
	*first, *second = *second, *first // the first is perhaps being filled, and so the next again
	buffer := posted.Pop()
	n := copy(buffer, packet) - framing.FabricCRCSize
	c.in.filled.Push(Received{Type: uint16(buffer[0])<<8 | uint16(buffer[1]), Payload: buffer[framing.FabricTypeSize:n], Buffer: buffer})
	c.notify()
	return true
}

// Receive returns the next packet that has come, intact. Its buffer is the program's, to
// be posted again.
func (c *Card) Receive() (r Received, ok bool) {
	if c.in.filled.Len() == 0 {
		return Received{}, false
	}
	return c.in.filled.Pop(), true
}

// Room implements Host. Without a buffer the packet blocks, and what is behind it.
func (c *Card) Room(int) bool {
	if c.in.posted.Len() > 0 {
		c.in.coming = true
		return true
	}
	c.stats.NoBuffer++
	c.in.blocked = true
	return false
}

// Place implements Placer: the packet is put into the buffer that was posted for it.
func (c *Card) Place(n int) []byte {
	e := &c.in
	if e.posted.Len() == 0 || n > len(*e.posted.At(0)) {
		return nil // it waits, or is counted
	}
	e.coming = true
	return (*e.posted.At(0))[:n]
}

// Arrived implements Host. What is not intact is counted, and its buffer used again.
func (c *Card) Arrived(packet []byte, whole bool) {
	e := &c.in
	if !e.coming {
		c.stats.Reloaded++
		return
	}
	e.coming = false
	buffer := *e.posted.At(0)
	switch {
	case !whole:
		c.stats.Truncated++
		return
	case len(packet) > len(buffer):
		c.stats.TooLong++
		return
	}
	n := len(packet)
	if n > 0 && &buffer[0] != &packet[0] {
		copy(buffer, packet)
	}
	typ, payload, err := ParsePacket(buffer[:n])
	switch err {
	case nil:
	case ErrTruncated:
		c.stats.Truncated++
		return
	case ErrRouted:
		c.stats.Misrouted++
		return
	default:
		c.stats.CRCErrors++
		return
	}
	c.stats.PacketsIn++
	c.stats.OctetsIn += uint64(n)
	e.filled.Push(Received{Type: typ, Payload: payload, Buffer: e.posted.Pop()})
	c.notify()
}
