package lanai

import (
	"context"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/myrinet/plain"
	"github.com/bobnet-go/bobnet/internal/myrinet/station"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
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
//
// An interface that goes down may come back. One that is deleted, or moved to another network
// namespace, ends the card: all waits then return an error that wraps transport.ErrGone.
func Open(ctx context.Context, cfg *OpenConfig) (*Card, error) {
	if cfg == nil {
		cfg = new(OpenConfig)
	}
	cable, err := station.OpenCable(ctx, cfg.Interface, false)
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
	l := new(live)
	if err := l.at.Init(cable, opts, l); err != nil {
		return nil, err
	}
	if err := l.at.Plug(with.Card, longest); err != nil {
		return nil, err
	}
	c := &Card{cfg: with, card: l.at.Card, via: l}
	l.c = c
	if err := c.start(cable, l); err != nil {
		return nil, err
	}
	c.engine.Start()
	return c, nil
}

// live is the carrier of a live card, and the machine that its engine drives. The engine's
// lock is around it.
type live struct {
	c    *Card
	at   station.Live
	seen uint64 // packets that had come when Poll returned last
}

var _ station.Driver = (*live)(nil)

// Found implements station.Driver.
func (l *live) Found() { l.c.driver.kick() }

// Serve implements station.Driver: interrupts have called the driver.
func (l *live) Serve() bool { return false }

// Enough implements station.Driver: an engine asks again.
func (l *live) Enough() bool { return false }

// Poll implements progress.Machine.
func (l *live) Poll(now int64) (arrived bool) {
	l.move(now)
	arrived, l.seen = l.at.Arrivals != l.seen, l.at.Arrivals
	return arrived
}

// move drives cable and card, and ends all waits when the cable is out for good. It returns when
// to drive them again. Other errors of the cable pass: an interface that is down may come back.
func (l *live) move(now int64) (next int64) {
	dead := l.at.Dead()
	next, _ = l.at.Drive(now)
	if l.at.Dead() != dead {
		l.c.engine.WakeAll()
	}
	return next
}

// Idle implements progress.Machine.
func (l *live) Idle() {}

// NextTimer implements progress.Machine.
func (l *live) NextTimer() int64 { return l.at.Next() }

// Woke implements progress.Machine: the next Poll looks at what has failed.
func (l *live) Woke(err error) {
	if err != nil {
		l.at.Doubt()
	}
}

// Failed implements progress.Machine.
func (l *live) Failed() error { return l.c.Failed() }

func (l *live) failed() error { return l.at.Dead() }
func (l *live) holds() bool   { return l.at.Holds() }
func (l *live) now() int64    { return l.at.Cable.Now() }

// later has the host's write be seen at once.
func (l *live) later(fn func()) {
	fn()
}

// news implements carrier.
func (l *live) news() { l.c.driver.deliverNews() }

// drive implements carrier. What comes meanwhile is for the next Poll to say.
func (l *live) drive() {
	if !l.at.Card.Pending() {
		return
	}
	l.c.engine.WakeBefore(l.move(l.now()))
}

func (l *live) port() *myrinet.LivePort { return l.at.Port() }
func (l *live) close()                  { l.at.Cable.Close() }
