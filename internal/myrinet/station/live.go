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

// OpenCable opens the end of a cable at a network interface, given by name or MAC, or "" for
// the only one that is up; with long frames (transport.LongLink) if the program has use for
// them, and the interface may carry them. Its errors are those of ring.Open; one that wraps
// EADDRINUSE says that the interface has a card or a switch already.
func OpenCable(ctx context.Context, iface string, long bool) (transport.Link, error) {
	cfg := ring.Config{Interface: iface, EtherType: ethertype.Fabric, Ports: hardware.CablePorts}
	if !long {
		cfg.Long = ring.Off
	}
	cable, err := ring.Open(ctx, &cfg)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("myrinet: a card needs an interface for itself, this one has a card or a switch: choose another, or end that: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return cable, nil
}

// Driver is the host's side of a live card, as Live calls it from within Drive.
type Driver interface {
	// Found says that the other end of the cable is there, for the first time.
	Found()
	// Serve sees to what a step of the program has left to the host, and reports whether the
	// program is to work again for it.
	Serve() (again bool)
	// Enough reports that there is what the host waits for, and Drive may return.
	Enough() bool
}

// Live is a card at the end of a live cable. One goroutine at a time may use it, but for
// what hardware.End.Link returns.
type Live struct {
	Card  *hardware.Card
	End   *hardware.End
	Cable transport.Link

	// Arrivals is how many packets have come so far, whole or not.
	Arrivals uint64

	driver   Driver
	dead     error // why nothing passes the cable any more
	doubt    bool  // the cable has failed since the last look at its interface
	lookAt   int64 // when to look again
	clock    int64 // when Drive was called
	stepAt   int64 // when the program wants to be called again
	next     int64 // when to drive again
	driving  bool
	stepping bool // the program is at work
	found    bool // the other end of the cable has been there
}

var _ hardware.Placer = (*Live)(nil)

// Longest is the longest packet of a program.
type Longest struct {
	Size   int
	Remedy string // what makes it shorter, to be said behind "raise MaxPacket"; "" if nothing does
}

func (n Longest) check(wire hardware.Wire, what, option string) error {
	if most := wire.MaxPacket(); most < n.Size {
		return fmt.Errorf("myrinet: packets have up to %d bytes, the %s takes %d: raise %s.MaxPacket%s", n.Size, what, most, option, n.Remedy)
	}
	return nil
}

// Init has the end of a cable. Plug follows. The cable is the card's when both have given no
// error.
func (l *Live) Init(cable transport.Link, opts myrinet.LiveOptions, driver Driver) (err error) {
	*l = Live{Cable: cable, driver: driver, clock: cable.Now()}
	l.End, err = hardware.NewEnd(cable, l, opts)
	return err
}

// Plug makes the card and plugs it in. It loads no program.
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

// mostRounds is how often one call drives cable and card, or has the program work, if there
// is ever more to do.
const mostRounds = 4

// step has the program and the driver do what there is to do. What happens meanwhile they see
// to themselves.
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

// Drive moves what has come and what is to be sent, and has the program work. It returns when
// to call it again if nothing happens before. The error is the cable's. If the cable is out for
// good, Dead returns why from then on, and so does Drive. A call from within Drive does nothing.
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

// lookPause is the time between two looks at an interface that fails, nanoseconds.
const lookPause = 250_000_000

// Doubt makes Drive look at the interface, because a wait at the cable has failed.
func (l *Live) Doubt() { l.doubt = true }

// look checks whether the cable is out for good: it was closed, or its interface is gone. An
// interface that is down may come back. Err is what the cable has returned last. While nothing
// fails look does nothing, because a look allocates.
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

// Dead returns why nothing passes the cable any more, or nil: the error wraps
// transport.ErrClosed or transport.ErrGone.
func (l *Live) Dead() error { return l.dead }

// Next is when to call Drive again, as it has said last.
func (l *Live) Next() int64 { return l.next }

// Holds reports that what is sent is to be kept until the other end of the cable is found,
// which takes a moment when both are new. When it is gone later, packets are lost, as from a
// cable that is out.
func (l *Live) Holds() bool { return !l.found }

// Port returns what the end of the cable is doing.
func (l *Live) Port() *hardware.LivePort {
	p := l.End.Snapshot()
	return &p
}
