package myrinet

import (
	"fmt"
	"math/rand/v2"

	"github.com/bobnet-go/bobnet/internal/counters"
	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
)

// World is virtual time. *sim.World implements it.
type World interface {
	Now() int64             // nanoseconds
	At(at int64, fn func()) // schedules fn for that time, or at once if it has passed
}

// Host is a card's side of its port. The fabric calls it from events of the world. Its methods may
// call methods of the Port, and must not wait.
type Host interface {
	// Room reports whether the card can accept a packet of n bytes whose head has arrived. If not,
	// the packet blocks until Port.Resume, or is broken.
	Room(n int) bool
	// Arrived delivers a packet: type, payload, CRC-8, and the rest of its route. The fabric reuses
	// the bytes after the call. The CRC-8 may be wrong; a truncated packet has none.
	Arrived(packet []byte, whole bool)
	// Sent reports that the last byte of the current packet has left the card.
	Sent()
}

// Fabric is a set of switches and cables in virtual time. Only the goroutine that drives its World
// may use it and its parts.
type Fabric struct {
	opts     Options
	world    World
	rng      *rand.Rand
	switches []*Switch
	ports    []*Port // all, for counting
	cables   []*Cable
	free     []*worm
	stats    Stats
}

// New returns a fabric without switches. Its error names the invalid option.
func New(w World, opts Options) (*Fabric, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Fabric{opts: opts, world: w, rng: rand.New(rand.NewPCG(opts.Seed, 0x6d7972696e6574))}, nil
}

// Switch is a crossbar. It has no address and answers no packets; its name is for display.
type Switch struct {
	f    *Fabric
	name string
	up   bool
	x    crossbar.Crossbar
	port []*Port
}

// Switch adds a switch.
func (f *Fabric) Switch(name string) *Switch {
	s := &Switch{f: f, name: name, up: true, x: crossbar.New(f.opts.Ports)}
	for i := range f.opts.Ports {
		p := f.newPort(fmt.Sprintf("%s:%d", name, i))
		p.sw, p.index = s, i
		s.port = append(s.port, p)
	}
	f.switches = append(f.switches, s)
	return s
}

// Port returns a port of the switch, 0 to the number of its ports less one.
func (s *Switch) Port(i int) *Port { return s.port[i] }

// String returns the switch's name.
func (s *Switch) String() string { return s.name }

// Port is the socket of a cable, at a switch or at a card.
type Port struct {
	f     *Fabric
	name  string
	sw    *Switch // nil at a card
	index int
	host  Host // at a card
	cable *Cable
	peer  *Port // at the other end of the cable
	stats PortStats

	timeout int64 // after this time a packet that entered here is broken

	// Of the outgoing direction: the packet that uses it, and until when.
	busy    *worm
	freeAt  int64 // time of freed; 0 if unknown
	freed   func()
	sending bool // at a card: the last packet is still leaving

	// Of the incoming direction: the packet whose head is in the buffer or has passed it, and the
	// packet that stands before the buffer.
	current, next *worm
	doneAt        int64 // time of done
	done          func()
}

func (f *Fabric) newPort(name string) *Port {
	timeout := int64(f.opts.Timeout)
	p := &Port{f: f, name: name, timeout: timeout + f.rng.Int64N(timeout/4+1)}
	p.freed, p.done = p.onFreed, p.onDone
	f.ports = append(f.ports, p)
	return p
}

// Host adds a card's port. The name is for display.
func (f *Fabric) Host(name string, h Host) *Port {
	p := f.newPort(name)
	p.host = h
	return p
}

// String returns the port's name.
func (p *Port) String() string { return p.name }

// Host returns the card of the port, or nil at a switch.
func (p *Port) Host() Host { return p.host }

// Stats returns a snapshot of the port's counters.
func (p *Port) Stats() PortStats { return p.stats }

// Cable connects two ports in both directions.
type Cable struct {
	a, b *Port
	cut  bool
}

// Join connects two free ports with a cable.
func (f *Fabric) Join(a, b *Port) (*Cable, error) {
	switch {
	case a == b:
		return nil, fmt.Errorf("myrinet: a cable from port %v to itself: plug its other end in elsewhere", a)
	case a.cable != nil || b.cable != nil:
		taken := a
		if a.cable == nil {
			taken = b
		}
		return nil, fmt.Errorf("myrinet: a cable from %v to %v: %v has one to %v: choose a free port", a, b, taken, taken.peer)
	}
	c := &Cable{a: a, b: b}
	a.cable, b.cable = c, c
	a.peer, b.peer = b, a
	f.cables = append(f.cables, c)
	return c, nil
}

// Unplug removes the cable from both its ports. Packets on it are lost, as when it is cut.
func (c *Cable) Unplug() {
	c.Cut()
	c.a.cable, c.b.cable, c.a.peer, c.b.peer = nil, nil, nil, nil
}

// alive reports whether packets pass from the port.
func (p *Port) alive() bool {
	return p.cable != nil && !p.cable.cut && (p.sw == nil || p.sw.up) && (p.peer.sw == nil || p.peer.sw.up)
}

// Stats returns a snapshot of the counters.
func (f *Fabric) Stats() Stats {
	s := f.stats
	for _, p := range f.ports {
		counters.Add(&s.Ports, &p.stats)
	}
	return s
}

// MaxPacket returns the largest size of a packet in bytes, including route and CRC-8.
func (f *Fabric) MaxPacket() int { return f.opts.MaxPacket }

// Ports returns the number of ports of each switch.
func (f *Fabric) Ports() int { return f.opts.Ports }
