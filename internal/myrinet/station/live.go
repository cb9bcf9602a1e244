package station

import (
	"context"
	"errors"
	"fmt"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/hardware"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/ring"
	"golang.org/x/sys/unix"
)

// OpenCable opens the end of a cable at a network interface, given by name or MAC, or "" for the
// only one that is up. long enables long frames (transport.LongLink) if the interface may carry
// them. The errors are those of ring.Open; one that wraps EADDRINUSE means that the interface
// already has a card or a switch.
func OpenCable(ctx context.Context, iface string, long bool) (transport.Link, error) {
	cfg := ring.Config{Interface: iface, EtherType: ethertype.Fabric, Ports: hardware.CablePorts}
	if !long {
		cfg.Long = ring.Off
	}
	cable, err := ring.Open(ctx, &cfg)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("myrinet: the interface already has a card or a switch (choose another interface, or stop that program): %w", err)
	}
	if err != nil {
		return nil, err
	}
	return cable, nil
}

// Driver is the host's side of a live card. Drive calls its methods.
type Driver interface {
	// Found is called when the other end of the cable is first found.
	Found()
	// Serve does the work that a step of the program has left to the host. It reports whether the
	// program must run again.
	Serve() (again bool)
	// Enough reports whether the event has occurred that the host waits for, so that Drive may
	// return.
	Enough() bool
}

// Live is a card at the end of a live cable. It is not safe for concurrent use, except for its
// Cable.
type Live struct {
	Card  *hardware.Card
	End   *hardware.End
	Cable transport.Link

	// Arrivals is the number of received packets, intact or not.
	Arrivals uint64

	driver   Driver
	dead     error // why the cable is permanently unusable
	doubt    bool  // the cable has failed since the interface was last checked
	lookAt   int64 // time of the next check
	clock    int64 // time of the Drive call
	stepAt   int64 // when the program wants to run again
	next     int64 // when to call Drive again
	driving  bool
	stepping bool // the program is running
	found    bool // the other end of the cable has been found
}

var _ hardware.Placer = (*Live)(nil)

// Longest describes the longest packet of a program.
type Longest struct {
	Size   int
	Remedy string // how to make it shorter, appended to "raise MaxPacket"; may be ""
}

func (n Longest) check(wire hardware.Wire, what, option string) error {
	if most := wire.MaxPacket(); most < n.Size {
		return fmt.Errorf("myrinet: packets have up to %d bytes, the %s takes %d: raise %s.MaxPacket%s", n.Size, what, most, option, n.Remedy)
	}
	return nil
}

// Init creates the end of a cable. Call Plug next. The card owns the cable if both succeed.
func (l *Live) Init(cable transport.Link, opts myrinet.LiveOptions, driver Driver) (err error) {
	*l = Live{Cable: cable, driver: driver, clock: cable.Now()}
	l.End, err = hardware.NewEnd(cable, l, opts)
	return err
}

// Plug creates the card and plugs it in. It does not load a program.
func (l *Live) Plug(cfg myrinet.CardConfig, need Longest) (err error) {
	if cfg.Name == "" {
		cfg.Name = l.Cable.Info().Interface
	}
	if l.Card, err = hardware.NewCard(nil, cfg); err != nil {
		return err
	}
	if err := need.check(l.End, "cable", "LiveOptions"); err != nil {
		return err
	}
	return l.Card.Plug(l.End)
}

// Room implements myrinet.Host.
func (l *Live) Room(n int) bool { return l.Card.Room(n) }

// Place implements hardware.Placer.
func (l *Live) Place(n int) []byte { return l.Card.Place(n) }

// Arrived implements myrinet.Host.
func (l *Live) Arrived(packet []byte, whole bool) {
	l.Arrivals++
	l.Card.Arrived(packet, whole)
	l.step()
}

// Sent implements myrinet.Host.
func (l *Live) Sent() {
	l.Card.Sent()
	l.step()
}

// mostRounds limits the rounds of one call that drives cable and card, or runs the program.
const mostRounds = 4

// step runs the program and the driver while they have work. Events that occur meanwhile do not
// call it recursively.
func (l *Live) step() {
	if l.stepping {
		return
	}
	l.stepping = true
	for range mostRounds {
		if l.Card.Pending() || l.clock >= l.stepAt {
			l.stepAt = l.Card.Poll(l.clock)
		}
		if !l.driver.Serve() {
			break
		}
	}
	l.stepping = false
}

// Drive moves received and queued packets, and runs the program. It returns when to call it again
// if no event occurs before. The error is the cable's. If the cable is permanently unusable, Dead
// returns the reason from then on, and so does Drive. A recursive call does nothing.
func (l *Live) Drive(now int64) (next int64, err error) {
	if l.driving {
		return l.next, nil
	}
	l.driving, l.clock = true, now
	l.step()
	for range mostRounds {
		l.next, err = l.End.Poll()
		if !l.found && l.End.Up() {
			l.found = true
			l.driver.Found()
		}
		l.step()
		if l.next = min(l.next, l.stepAt); l.Card.Pending() {
			l.next = now
		}
		if err != nil || l.driver.Enough() || l.next > now {
			break
		}
	}
	l.driving = false
	if l.look(now, err); l.dead != nil {
		err = l.dead
	}
	return l.next, err
}

// lookPause is the interval between checks of a failing interface, in nanoseconds.
const lookPause = 250_000_000

// Doubt makes Drive check the interface, because a wait on the cable has failed.
func (l *Live) Doubt() { l.doubt = true }

// look checks whether the cable is permanently unusable: it was closed, or its interface has
// disappeared. An interface that is down may come back. err is the cable's last result. Without
// failures look does nothing, because a check allocates.
func (l *Live) look(now int64, err error) {
	l.doubt = l.doubt || l.End.Failing()
	switch {
	case l.dead != nil:
		return
	case errors.Is(err, transport.ErrClosed):
		l.dead = err
		return
	case !l.doubt:
		return
	case now >= l.lookAt:
		l.lookAt = now + lookPause
		found := transport.Check(l.Cable)
		if l.doubt = errors.Is(found, transport.ErrLinkDown); errors.Is(found, transport.ErrGone) {
			l.dead = found
		}
	}
	l.next = min(l.next, l.lookAt)
}

// Dead returns the reason why the cable is permanently unusable, or nil. The error wraps
// transport.ErrClosed or transport.ErrGone.
func (l *Live) Dead() error { return l.dead }

// Next returns the last result of Drive: when to call it again.
func (l *Live) Next() int64 { return l.next }

// Holds reports whether packets must be kept until the other end of the cable is found for the
// first time, which takes a moment if both are new. If it disappears later, packets are lost, as
// with an unplugged cable.
func (l *Live) Holds() bool { return !l.found }

// Port returns the state of the cable's end.
func (l *Live) Port() *hardware.LivePort {
	p := l.End.Snapshot()
	return &p
}
