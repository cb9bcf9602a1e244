package hardware

import (
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Placer is implemented by a Host that knows where a packet will lie, so that a packet that has
// arrived whole on a live cable is put there directly.
type Placer interface {
	myrinet.Host

	// Place returns memory for the incoming packet of n bytes, or nil if there is none. It replaces
	// Room. Either Arrived follows, with the packet in that memory or elsewhere, or the packet is
	// lost and no call follows.
	Place(n int) []byte
}

// End is the end of a live cable that a card is plugged into, the counterpart of a Fabric's Port in
// virtual time. The other end is a port of a LiveSwitch or another End: a cable can join two hosts
// without a switch.
//
// It has no goroutine. The goroutine that polls or waits on the card's link calls Poll, which calls
// the methods of the Host; these may call the End. Only one goroutine at a time may use an End. The
// methods of its Link have the rules of transport.Link.
type End struct {
	cableEnd
	opts myrinet.LiveOptions
	host myrinet.Host
	mem  Placer // host, if it implements Placer

	arena   []byte // packets to send, one after the other
	packets [maxOutgoing]span
	first   int
	n       int
	off     int  // queued bytes of the first packet
	sending bool // the host waits for Sent
	owed    bool // Sent is due now
	polling bool

	packet []byte // reassembled from several frames
	handed bool   // the packet came in one frame, and the host has received it
}

// span is the place of a packet in the arena.
type span struct{ at, size int }

const (
	maxOutgoing = 256 // packets that wait for the link
	arenaFactor = 4   // capacity of the arena, in packets of the greatest length
)

// NewEnd returns the end of a cable on a link. The link must have the EtherType of the fabric,
// usually ethertype.Fabric, and an MTU of at least 256 bytes. The End owns the link: others may
// call only its Wait, Wake, Ready, Now, Info, Stats and Close.
func NewEnd(link transport.Link, host myrinet.Host, opts myrinet.LiveOptions) (*End, error) {
	opts, err := withDefaults(opts)
	if err != nil {
		return nil, err
	}
	info := link.Info()
	if err := checkLink(&info); err != nil {
		return nil, err
	}
	e := &End{opts: opts, host: host}
	e.mem, _ = host.(Placer)
	e.arena = make([]byte, 0, arenaFactor*opts.MaxPacket)
	e.packet = make([]byte, 0, opts.MaxPacket)
	e.init(link, &e.opts, e, cardPatience, newTags(opts.Seed, info.MAC))
	return e, nil
}

// Link returns the cable's link.
func (e *End) Link() transport.Link { return e.link }

// Part returns the number of bytes of a packet that a frame can carry at most, if the path carries
// every frame that the link can send.
func (e *End) Part() int { return max(e.short, e.long.part) }

// Up reports whether the other end is present.
func (e *End) Up() bool { return e.up }

// Failing reports whether the link refused the last frame because of an error.
func (e *End) Failing() bool { return e.out.full && e.out.failed }

// MaxPacket returns the size in bytes of the longest packet, with route and CRC-8, that both ends
// accept.
func (e *End) MaxPacket() int {
	if e.known {
		return e.longest
	}
	return e.opts.MaxPacket
}

// Poll receives packets, hands them to the host, and sends queued frames. It returns when to call
// Poll again if nothing arrives before. The error is the link's; if it wraps transport.ErrClosed,
// the cable is unusable.
func (e *End) Poll() (next int64, err error) {
	now := e.link.Now()
	e.polling = true
	more, err := e.receive(now)
	e.tick(now)
	for range maxOutgoing {
		e.consume(now)
		e.pump(now)
		if !e.owed {
			break
		}
		e.sending, e.owed = false, false
		e.host.Sent()
	}
	e.polling = false
	if e := e.push(now); err == nil {
		err = e
	}
	if more || e.owed {
		return now, err
	}
	return e.cableEnd.due(now), err
}

// push hands queued frames to the link.
func (e *End) push(now int64) error {
	e.speak(now)
	e.credits()
	err := e.flush()
	for e.n > 0 && e.out.n == 0 && err == nil && e.out.credit() > 0 { // the link has room again
		e.pump(now)
		err = e.flush()
	}
	if e.out.n == 0 && e.n == 0 {
		e.arena = e.arena[:0]
		e.owed = e.sending
	}
	return err
}

// Send sends a packet of route, type, payload and CRC-8, as AppendPacket builds it. The caller may
// reuse the bytes at once. It reports false until the previous packet has left (Host.Sent), and for
// a packet that is longer than MaxPacket or too short. Without a neighbour the packet is dropped
// and counted (PortStats.NoCable).
func (e *End) Send(packet []byte) bool {
	if e.sending || len(packet) < framing.FabricLeast || len(packet) > e.MaxPacket() {
		return false
	}
	e.sending = true
	if !e.up {
		e.stats.NoCable++
		e.owed = true
		return true
	}
	if !e.sendNow(packet) {
		e.packets[(e.first+e.n)%maxOutgoing] = span{len(e.arena), len(packet)}
		e.n++
		e.arena = append(e.arena, packet...)
	}
	e.owed = e.n < maxOutgoing && cap(e.arena)-len(e.arena) >= e.opts.MaxPacket
	if e.polling {
		return true
	}
	now := e.link.Now()
	e.pump(now)
	_ = e.push(now) // Poll gets the same error
	return true
}

// copyLeast is the length in bytes from which a packet is sent without a copy. Copying shorter
// packets, so that one system call sends many, costs less than a call for each.
const copyLeast = 16 << 10

// sendNow sends a long packet from the caller's memory, if it fits one frame and no other packet
// waits. It reports false if the packet must wait.
func (e *End) sendNow(packet []byte) bool {
	o := &e.out
	if len(packet) < copyLeast || e.n > 0 || o.carries(len(packet)) < len(packet) || o.credit() == 0 {
		return false
	}
	e.begin(len(packet))
	o.send(0, packet, nil, nil)
	_ = e.flush() // Poll gets the same error
	if o.n > 0 {  // the link has no room, and this frame is the last in the queue
		at := len(e.arena)
		e.arena = append(e.arena, packet...)
		o.queue[(o.first+o.n-1)%len(o.queue)].body[0] = e.arena[at:]
	}
	return true
}

// begin starts a packet on the cable.
func (e *End) begin(size int) {
	e.out.begin(size)
	e.stats.PacketsOut++
	e.stats.BytesOut += uint64(size)
}

// pump cuts packets into frames while the neighbour has room.
func (e *End) pump(now int64) {
	for e.n > 0 {
		s := e.packets[e.first]
		for e.off < s.size {
			if !e.room(now) {
				return
			}
			if e.off == 0 {
				e.begin(s.size)
			}
			n := e.out.carries(s.size - e.off)
			e.out.send(e.off, e.arena[s.at+e.off:s.at+e.off+n], nil, nil)
			e.off += n
		}
		e.off = 0
		e.first = (e.first + 1) % maxOutgoing
		e.n--
	}
}

// Resume offers a packet again for which Host.Room has reported false.
func (e *End) Resume() {
	e.pass.asked = false
	if e.pass.state == halted && !e.polling {
		now := e.link.Now()
		e.polling = true
		e.consume(now)
		e.polling = false
		_ = e.push(now) // Poll gets the same error
	}
}

// Snapshot returns the state of the cable's end.
func (e *End) Snapshot() LivePort { return e.snapshot() }

// head implements taker.
func (e *End) head(p *passage, _ []byte) verdict {
	if p.asked { // stays set until Resume
		return waits
	}
	if p.asked = !e.host.Room(p.length); p.asked {
		return waits
	}
	e.packet, e.handed = e.packet[:0], false
	return goes
}

// body implements taker.
func (e *End) body(p *passage, s *slot, last bool) bool {
	if p.got == 0 && last {
		e.handed = true
		e.host.Arrived(s.data, true)
		return true
	}
	e.packet = append(e.packet, s.data...)
	return true
}

// end implements taker.
func (e *End) end(_ *passage, whole bool) {
	if !e.handed {
		e.host.Arrived(e.packet, whole)
	}
}

// place implements taker.
func (e *End) place(n int) []byte {
	if e.mem == nil {
		return nil
	}
	return e.mem.Place(n)
}

// placed implements taker.
func (e *End) placed(packet []byte) { e.host.Arrived(packet, true) }

func (e *End) cancel(*passage) {}
func (e *End) changed()        {}

// lost implements taker.
func (e *End) lost() {
	e.stats.Lost += uint64(e.n)
	e.n, e.off, e.arena = 0, 0, e.arena[:0]
	e.owed = e.sending
}
