package hardware

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/framing"
	"github.com/bobnet-go/bobnet/internal/myrinet/crossbar"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// LiveSwitch is a crossbar between live cables. It is safe for concurrent use.
type LiveSwitch struct {
	name string
	opts myrinet.LiveOptions

	mu    sync.Mutex
	x     crossbar.Crossbar
	port  []*livePort // nil where no cable is plugged in
	ready uint32      // inputs that may continue, a bit each
	now   int64
}

// livePort is a port of a live switch.
type livePort struct {
	cableEnd
	sw      *LiveSwitch
	index   int
	wakesAt int64 // next wake-up without an event
}

// NewLiveSwitch returns a switch with a port for each link, 2 to MaxPorts; nil stands for a port
// without a cable. The links must have the EtherType of the fabric, usually ethertype.Fabric, and
// MTUs of at least 256 bytes. The switch owns them, but Drive does not close them.
func NewLiveSwitch(name string, links []transport.Link, opts myrinet.LiveOptions) (*LiveSwitch, error) {
	opts, err := withDefaults(opts)
	if err != nil {
		return nil, err
	}
	if len(links) < 2 || len(links) > crossbar.MaxPorts {
		return nil, fmt.Errorf("myrinet: switch %s of %d ports: it can have 2 to %d", name, len(links), crossbar.MaxPorts)
	}
	s := &LiveSwitch{name: name, opts: opts, x: crossbar.New(len(links)), port: make([]*livePort, len(links))}
	taken := map[ethertype.Addr]int{}
	for i, link := range links {
		if link == nil {
			continue
		}
		info := link.Info()
		if err := checkLink(&info); err != nil {
			return nil, fmt.Errorf("port %d of switch %s: %w", i, name, err)
		}
		addr := ethertype.Addr{MAC: info.MAC, Port: info.Ports.Lo}
		if j, ok := taken[addr]; ok {
			return nil, fmt.Errorf("myrinet: ports %d and %d of switch %s have the same address %v: give each an interface of its own", j, i, name, addr)
		}
		taken[addr] = i
		p := &livePort{sw: s, index: i}
		p.init(link, &s.opts, p, outputPatience, newTags(opts.Seed, info.MAC))
		s.port[i] = p
	}
	return s, nil
}

// String returns the switch's name.
func (s *LiveSwitch) String() string { return s.name }

// Drive forwards what arrives at a port, until the port's link is closed or fails permanently, and
// returns the link's error. Each port with a cable needs one goroutine, or process of a simulated
// world, in Drive.
func (s *LiveSwitch) Drive(port int) error {
	p := s.port[port]
	spin := int64(s.opts.Spin)
	if p.link.Info().Virtual {
		spin = 0
	}
	for {
		until, moved, err := s.poll(p)
		if errors.Is(err, transport.ErrClosed) {
			return err
		}
		if moved && spin > 0 {
			for end := min(until, p.link.Now()+spin); !p.link.Ready() && p.link.Now() < end; {
			}
		}
		if p.link.Ready() {
			continue
		}
		if err := p.link.Wait(until); errors.Is(err, transport.ErrClosed) {
			return err
		}
	}
}

// poll handles what has arrived at a port, including the consequences at other ports. It returns
// when to call it again if nothing arrives, and whether something has arrived.
func (s *LiveSwitch) poll(p *livePort) (until int64, moved bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = p.link.Now()
	before := p.frames.FramesIn
	more, err := p.receive(s.now)
	s.ready |= 1 << p.index
	p.tick(s.now)
	if e := s.settle(p); err == nil {
		err = e
	}
	p.wakesAt = p.due(s.now)
	if more {
		p.wakesAt = s.now
	}
	s.wakeOthers(p)
	return p.wakesAt, p.frames.FramesIn != before, err
}

// wakeOthers wakes the ports other than p whose next action has become earlier.
func (s *LiveSwitch) wakeOthers(p *livePort) {
	for _, q := range s.port {
		if q != nil && q != p && q.due(s.now) < q.wakesAt {
			q.wakesAt = q.due(s.now)
			q.link.Wake()
		}
	}
}

// settle forwards what can move, and hands queued frames to the links. It returns the error of p's
// link.
func (s *LiveSwitch) settle(p *livePort) (err error) {
	p.speak(s.now)
	for again := true; again; again = s.ready != 0 {
		for s.ready != 0 {
			i := bits.TrailingZeros32(s.ready)
			s.ready &^= 1 << i
			if s.port[i] != nil {
				s.port[i].consume(s.now)
			}
		}
		for _, q := range s.port {
			if q == nil {
				continue
			}
			q.credits()
			if e := q.flush(); e != nil && q == p {
				err = e
			}
		}
	}
	return err
}

// Ports returns a snapshot of the ports.
func (s *LiveSwitch) Ports() []LivePort {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]LivePort, len(s.port))
	for i, p := range s.port {
		if p != nil {
			list[i] = p.snapshot()
		}
		list[i].Port = i
	}
	return list
}

// head implements taker.
func (p *livePort) head(pass *passage, part []byte) verdict {
	x := &p.sw.x
	if !pass.asked {
		out, drop := x.Way(p.index, part[0], &p.stats.NoRoute, &p.stats.BadTurn)
		if drop == nil && pass.length <= framing.FabricLeast {
			drop = &p.stats.NoRoute // the rest is too short for a card
		}
		if drop == nil && !p.sw.up(out) {
			drop = &p.stats.NoCable
		}
		if drop != nil {
			*drop++
			return drops
		}
		pass.asked, pass.out, pass.turn = true, out, part[0]
		x.Ask(p.index, out)
	}
	switch {
	case !p.sw.up(pass.out):
		p.cancel(pass)
		p.stats.NoCable++
		return drops
	case x.User(pass.out) != p.index:
		return waits
	}
	return goes
}

// up reports whether an output can send packets.
func (s *LiveSwitch) up(out int) bool { return s.port[out] != nil && s.port[out].up }

// body implements taker.
func (p *livePort) body(pass *passage, s *slot, last bool) bool {
	o := p.sw.port[pass.out]
	if pass.got == 0 && s.sent == 0 {
		s.sent = 1 // strips the turn
	}
	if !s.summed && !pass.cut {
		s.summed = true
		pass.crc = framing.UpdateCRC8(pass.crc, s.data)
		if last {
			p.remake(pass, s.data)
		}
	}
	for s.sent < len(s.data) {
		if !o.room(p.sw.now) {
			return false
		}
		if pass.sent == 0 {
			o.out.begin(pass.length - 1)
			o.stats.PacketsOut++
			o.stats.BytesOut += uint64(pass.length - 1)
		}
		n := o.out.carries(len(s.data) - s.sent)
		part := s.data[s.sent : s.sent+n]
		if s.sent+n == len(s.data) && !pass.cut {
			s.state = slotQueued
			o.out.send(pass.sent, part, &p.in, s)
		} else {
			o.out.send(pass.sent, part, nil, nil)
		}
		s.sent += n
		pass.sent += n
	}
	return true
}

// remake checks the CRC-8 of a received packet, and adjusts it for the next cable. A wrong CRC-8
// stays wrong.
func (p *livePort) remake(pass *passage, tail []byte) {
	if pass.crc != 0 {
		p.stats.CRCErrors++
	}
	end := len(tail) - framing.FabricCRCSize
	tail[end] = framing.StripCRC8(tail[end], pass.turn, pass.length-1-framing.FabricCRCSize)
}

// end implements taker.
func (p *livePort) end(pass *passage, whole bool) {
	if !whole {
		p.sw.port[pass.out].out.breakOff(pass.sent)
	}
	p.sw.release(pass.out)
}

// place implements taker. A packet that passes a switch always waits in the input's buffer until
// the output's link has taken it.
func (p *livePort) place(int) []byte { return nil }
func (p *livePort) placed([]byte)    {}

// cancel implements taker.
func (p *livePort) cancel(pass *passage) {
	switch {
	case !pass.asked:
	case p.sw.x.User(pass.out) == p.index:
		p.sw.release(pass.out)
	default:
		p.sw.x.Cancel(p.index)
	}
}

// release gives an output to the next input that waits for it.
func (s *LiveSwitch) release(out int) {
	if next, ok := s.x.Release(out); ok {
		s.ready |= 1 << next
	}
}

// changed implements taker.
func (p *livePort) changed() {
	if in := p.sw.x.User(p.index); in >= 0 {
		p.sw.ready |= 1 << in
	}
}

// lost implements taker.
func (p *livePort) lost() {
	for _, q := range p.sw.port {
		if q == nil || !q.pass.asked || q.pass.out != p.index {
			continue
		}
		switch q.pass.state {
		case passing:
			reason := &q.stats.Truncated
			if q.pass.sent == 0 {
				reason = &q.stats.NoCable
			}
			*reason++
			q.unblock(p.sw.now)
			p.sw.release(p.index)
			q.pass.state = thrown
		}
		p.sw.ready |= 1 << q.index
	}
}
