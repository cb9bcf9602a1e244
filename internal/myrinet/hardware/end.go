package hardware

import (
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Placer is implemented by hosts that know where a packet will lie, so that one which has
// come whole by a live cable is put there at once.
type Placer interface {
	myrinet.Host

	// Place returns memory for the packet of n octets that stands before the card, nil if
	// there is none. It takes the place of Room. Arrived follows, with the packet in that
	// memory or elsewhere; or nothing does, because the packet is lost.
	Place(n int) []byte
}

// End is the end of a live cable that a card is plugged into: what a Port of a Fabric is
// to a card in virtual time. The other end is a port of a LiveSwitch, or another End: two
// hosts may be joined without a switch.
//
// It has no goroutine. Whoever polls or waits on the card's link drives it, by Poll: that
// is when the methods of the Host are called, and the Host may call those of the End then.
// One goroutine at a time may use an End, but for what Link returns, as transport.Link says.
type End struct {
	cableEnd
	opts myrinet.LiveOptions
	host myrinet.Host
	mem  Placer // host, if it is one

	arena   []byte // packets to be sent, one behind the other
	packets [maxOutgoing]span
	first   int
	n       int
	off     int  // octets of the first that are queued
	sending bool // Sent is owed for a packet
	owed    bool // and can be said now
	polling bool

	packet []byte // that comes in several frames
	handed bool   // the packet came in one frame, and the host has it
}

// span is a packet in the arena.
type span struct{ at, size int }

const (
	maxOutgoing = 256 // packets that wait for the link
	arenaFactor = 4   // how many of the longest packets the arena holds
)

// NewEnd returns the end of a cable on a link, which has the EtherType of the fabric,
// usually ethertype.Fabric, and an MTU of 256 octets or more. The link is the End's from
// now on: others call Wait, Wake, Ready, Now, Info, Stats and Close only.
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

// Link returns the link that the cable is on.
func (e *End) Link() transport.Link { return e.link }

// Part returns the most octets of a packet that a frame may carry, if the cable carries
// whatever the link does.
func (e *End) Part() int { return max(e.short, e.long.part) }

// Up reports whether the other end is there.
func (e *End) Up() bool { return e.up }

// Failing reports whether the link did not take the last frame because of an error.
func (e *End) Failing() bool { return e.out.full && e.out.failed }

// MaxPacket returns the most octets that a packet may have, route and CRC-8 included: what
// both ends of the cable take.
func (e *End) MaxPacket() int {
	if e.known {
		return e.longest
	}
	return e.opts.MaxPacket
}

// Poll takes what has come, hands it to the host, and sends what there is to be sent. It
// returns when to call it again if nothing comes before. The error is the link's: with one
// that wraps transport.ErrClosed the cable is out for good.
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

// push hands all that is to be sent to the link.
func (e *End) push(now int64) error {
	e.speak(now)
	e.credits()
	err := e.flush()
	for e.n > 0 && e.out.n == 0 && err == nil && e.out.credit() > 0 { // there is room again
		e.pump(now)
		err = e.flush()
	}
	if e.out.n == 0 && e.n == 0 {
		e.arena = e.arena[:0]
		e.owed = e.sending
	}
	return err
}

// Send sends a packet: its route, type, payload and CRC-8, as AppendPacket builds it. The
// bytes are the caller's again when it returns. It reports false while the packet before
// has not left (Host.Sent says when), and for one that is longer than MaxPacket or too
// short for a packet. Without a neighbour the packet is counted as PortStats.NoCable.
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
	_ = e.push(now) // Poll meets the error, too
	return true
}

// copyLeast is how long a packet is that leaves by itself. To copy shorter ones, so that
// many leave by one call, costs less than a call for each.
const copyLeast = 16 << 10

// sendNow has the link take a long packet from where it lies, if it is one frame and none is
// before it. It reports false if the packet has to wait for its turn.
func (e *End) sendNow(packet []byte) bool {
	o := &e.out
	if len(packet) < copyLeast || e.n > 0 || o.carries(len(packet)) < len(packet) || o.credit() == 0 {
		return false
	}
	e.begin(len(packet))
	o.send(0, packet, nil, nil)
	_ = e.flush() // Poll meets the error, too
	if o.n > 0 {  // the link has no room: this is the last frame that it has not taken
		at := len(e.arena)
		e.arena = append(e.arena, packet...)
		o.queue[(o.first+o.n-1)%len(o.queue)].body[0] = e.arena[at:]
	}
	return true
}

// begin begins a packet on the cable.
func (e *End) begin(size int) {
	e.out.begin(size)
	e.stats.PacketsOut++
	e.stats.OctetsOut += uint64(size)
}

// pump cuts packets into frames as far as the neighbour has room.
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

// Resume has a packet that found no room (Host.Room) ask again.
func (e *End) Resume() {
	e.pass.asked = false
	if e.pass.state == halted && !e.polling {
		now := e.link.Now()
		e.polling = true
		e.consume(now)
		e.polling = false
		_ = e.push(now) // Poll meets the error, too
	}
}

// Snapshot returns what the end of the cable is doing.
func (e *End) Snapshot() LivePort { return e.snapshot() }

// head implements taker.
func (e *End) head(p *passage, _ []byte) verdict {
	if p.asked { // until Resume
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
