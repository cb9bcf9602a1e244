package lanai

import (
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/myrinet/plain"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
)

// OpenConfig says what to open.
type OpenConfig struct {
	Interface string // name or MAC of the network interface that is the cable's end; "" for the only one that is up
	Config
	Cable myrinet.LiveOptions
}

// Open opens the card at a network interface, which is one end of a cable: what is at the
// other end is a card, too, or a port of a switch (bobnet switch). Its errors are those of
// ring.Open; one that wraps EADDRINUSE says that the interface has a card or a switch
// already. A nil cfg means defaults.
func Open(cfg *OpenConfig) (*Card, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	cable, err := ring.Open(&ring.Config{
		Interface: cfg.Interface, EtherType: ethertype.Fabric, Ports: myrinet.CablePorts, Long: ring.Off,
	})
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("lanai: a card needs an interface for itself, this one has a card or a switch: choose another, or end that: %w", err)
	}
	if err != nil {
		return nil, err
	}
	c, err := Join(cable, &cfg.Config, cfg.Cable)
	if err != nil {
		cable.Close()
		return nil, err
	}
	return c, nil
}

// Join returns a new card at the end of a cable, which is cable from now on: Close closes
// it. On an error it is as it was. A nil cfg means defaults.
func Join(cable transport.Link, cfg *Config, opts myrinet.LiveOptions) (*Card, error) {
	info := cable.Info()
	with := Config{}
	if cfg != nil {
		with = *cfg
	}
	if with.Mapper == nil && with.Routes == nil && !info.Virtual {
		with.Mapper = plain.LiveMapper()
	}
	if with.MAC == (ethertype.MAC{}) {
		with.MAC = info.MAC
	}
	if err := with.resolve(); err != nil {
		return nil, err
	}
	if with.Card.Name == "" {
		with.Card.Name = info.Interface
	}
	card, err := myrinet.NewCard(nil, with.Card)
	if err != nil {
		return nil, err
	}
	l := &live{cable: cable}
	c := &Card{cfg: with, card: card, via: l}
	l.c = c
	if l.end, err = myrinet.NewEnd(cable, (*station)(l), opts); err != nil {
		return nil, err
	}
	if need := myrinet.PacketSize(MaxHops, packetRoom); l.end.MaxPacket() < need {
		return nil, fmt.Errorf("lanai: packets have up to %d octets, the cable takes %d: raise LiveOptions.MaxPacket", need, l.end.MaxPacket())
	}
	if err := card.Plug(l.end); err != nil {
		return nil, err
	}
	l.clock = cable.Now()
	if err := c.start(cable, l); err != nil {
		return nil, err
	}
	c.engine.Start()
	return c, nil
}

// live is the carrier of a live card, and the machine that its engine drives. The engine's
// lock is around it.
type live struct {
	c        *Card
	cable    transport.Link
	end      *myrinet.End
	clock    int64 // when it was driven last
	stepping bool  // the program is at work
	polling  bool  // Poll is
	found    bool  // the other end of the cable has been there
	stepAt   int64 // when the program wants to be called again
	next     int64 // when to drive again
	heard    bool  // something has come for a program
	err      error
}

// station is what the end of a live cable knows of its card.
type station live

var _ myrinet.Host = (*station)(nil)

// Room implements myrinet.Host.
func (s *station) Room(n int) bool { return s.c.card.Room(n) }

// Arrived implements myrinet.Host.
func (s *station) Arrived(packet []byte, whole bool) {
	s.c.card.Arrived(packet, whole)
	s.heard = true
	(*live)(s).step()
}

// Sent implements myrinet.Host.
func (s *station) Sent() {
	s.c.card.Sent()
	(*live)(s).step()
}

// step has the program do what there is to do. What happens meanwhile it sees to itself.
func (l *live) step() {
	if l.stepping || !l.c.card.Pending() && l.clock < l.stepAt {
		return
	}
	l.stepping = true
	l.stepAt = l.c.card.Poll(l.clock)
	l.stepping = false
}

// mostRounds is how often one Poll drives cable and card if there is ever more to do.
const mostRounds = 4

// Poll implements progress.Machine.
func (l *live) Poll(now int64) (arrived bool) {
	l.clock, l.polling = now, true
	l.step()
	for range mostRounds {
		next, err := l.end.Poll()
		if err != nil {
			l.err = err
		}
		if !l.found && l.end.Up() {
			l.found = true
			l.c.driver.kick()
		}
		l.step()
		if l.next = next; l.err != nil || next > now {
			break
		}
	}
	l.polling = false
	arrived, l.heard = l.heard, false
	return arrived
}

// Idle implements progress.Machine.
func (l *live) Idle() {}

// NextTimer implements progress.Machine.
func (l *live) NextTimer() int64 { return min(l.next, l.stepAt) }

// Woke implements progress.Machine.
func (l *live) Woke(err error) {
	if err != nil {
		l.err = err
	}
}

// Failed implements progress.Machine.
func (l *live) Failed() error { return l.c.Failed() }

func (l *live) failed() error {
	if errors.Is(l.err, transport.ErrClosed) || l.c.closed {
		return transport.ErrClosed
	}
	return nil
}

// holds keeps what is sent until the other end of the cable is found, which takes a moment
// when both are new. When it is gone later, packets are lost, as from a cable that is out.
func (l *live) holds() bool { return !l.found }
func (l *live) now() int64  { return l.cable.Now() }

// later has the host's write be seen at once.
func (l *live) later(fn func()) {
	fn()
}

// news implements carrier.
func (l *live) news() { l.c.driver.deliverNews() }

// drive implements carrier.
func (l *live) drive() {
	if l.polling || !l.c.card.Pending() {
		return
	}
	if l.Poll(l.cable.Now()) {
		l.heard = true
	}
	l.c.engine.WakeBefore(l.NextTimer())
}

func (l *live) close() { l.cable.Close() }
