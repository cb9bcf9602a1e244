package hardware

import (
	"github.com/bobnet-go/bobnet/internal/fifo"
	"github.com/bobnet-go/bobnet/internal/framing"
)

// sendEngine sends one packet at a time from SRAM.
type sendEngine struct {
	c        *Card
	busy     bool
	packet   []byte // not yet on the wire
	launchAt int64
	launch   func()
}

func (e *sendEngine) init(c *Card) {
	e.c = c
	e.launch = e.onLaunch
}

// onLaunch handles the event of a packet's departure. An event before launchAt belongs to a program
// that was replaced.
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
		e.c.stats.BytesOut += uint64(len(packet))
		return
	}
	e.c.stats.Refused++
	e.busy = false
	e.c.notify()
}

// reset drops a packet that is not yet on the wire.
func (e *sendEngine) reset() {
	if e.packet != nil {
		e.packet, e.busy = nil, false
	}
}

// Send starts the send engine. packet lies in SRAM: a route, a type, a payload, and a byte for the
// CRC-8, which the engine computes. The engine owns it until Sending reports false. Send reports
// false while the engine is busy, and for a packet that is too short. A packet that is too long for
// the link is counted as CardStats.Refused.
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

// maxPosted limits the receive buffers of a card, empty and filled.
const maxPosted = 256

// recvEngine puts received packets into buffers in SRAM, in the order in which the program has
// posted the buffers.
type recvEngine struct {
	c       *Card
	posted  fifo.Queue[[]byte]
	filled  fifo.Queue[Received]
	coming  bool // a packet with a posted buffer is arriving
	blocked bool // a packet waits for a buffer
	resume  func()
}

// Received is a received packet.
type Received struct {
	Type    uint16
	Payload []byte // part of Buffer
	Buffer  []byte // the posted buffer
}

func (e *recvEngine) init(c *Card) {
	e.c = c
	e.resume = func() { c.wire.Resume() }
}

// reset removes all buffers. A packet that waits for a buffer continues to wait.
func (e *recvEngine) reset() {
	e.coming = false
	for e.posted.Len() > 0 {
		e.posted.Pop()
	}
	for e.filled.Len() > 0 {
		e.filled.Pop()
	}
}

// Post gives the receive engine a buffer in SRAM for one packet with its type and CRC-8. The engine
// owns it until Receive returns it. Post reports false if the engine has maxPosted buffers.
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

// Loop delivers a packet to the card that sends it: a type, a payload, and a byte for the CRC-8.
// The packet does not pass the wire, and takes no time. Loop reports false if fewer than two
// receive buffers are posted, because the wire needs one, and for a packet that is longer than its
// buffer.
func (c *Card) Loop(packet []byte) bool {
	posted := &c.in.posted
	if len(packet) < framing.FabricLeast || posted.Len() < 2 || len(packet) > len(*posted.At(1)) {
		return false
	}
	first, second := posted.At(0), posted.At(1)
	*first, *second = *second, *first // the first buffer may be receiving a packet from the wire, so it stays the next
	buffer := posted.Pop()
	n := copy(buffer, packet) - framing.FabricCRCSize
	c.in.filled.Push(Received{Type: uint16(buffer[0])<<8 | uint16(buffer[1]), Payload: buffer[framing.FabricTypeSize:n], Buffer: buffer})
	c.notify()
	return true
}

// Receive returns the next intact packet. The program owns its buffer, and posts it again.
func (c *Card) Receive() (r Received, ok bool) {
	if c.in.filled.Len() == 0 {
		return Received{}, false
	}
	return c.in.filled.Pop(), true
}

// Room implements Host. Without a buffer, the packet and those behind it block.
func (c *Card) Room(int) bool {
	if c.in.posted.Len() > 0 {
		c.in.coming = true
		return true
	}
	c.stats.NoBuffer++
	c.in.blocked = true
	return false
}

// Place implements Placer. It returns the first posted buffer.
func (c *Card) Place(n int) []byte {
	e := &c.in
	if e.posted.Len() == 0 || n > len(*e.posted.At(0)) {
		return nil // Room makes it wait, or Arrived counts it
	}
	e.coming = true
	return (*e.posted.At(0))[:n]
}

// Arrived implements Host. It counts a damaged packet, and keeps its buffer posted.
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
	c.stats.BytesIn += uint64(n)
	e.filled.Push(Received{Type: typ, Payload: payload, Buffer: e.posted.Pop()})
	c.notify()
}
