package plain

import (
	"fmt"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/myrinet"
)

// Waiter is where a process waits in virtual time: *sim.Waiter is one.
type Waiter interface {
	Wait(until int64) error
	Wake()
}

// Virtual is virtual time: a clock whose events drive the card, and places for processes
// to wait at.
type Virtual struct {
	World  myrinet.World
	Waiter func() Waiter
}

// NewVirtual returns the link of a new card in virtual time. plug makes the card's port, as
// Fabric.Host does. All methods of the link are for processes of the world.
func NewVirtual(v Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (transport.Parking, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	card, err := myrinet.NewCard(v.World, cfg.Card)
	if err != nil {
		return nil, err
	}
	port := plug(card)
	if need := PacketSize(cfg.MTU); port.MaxPacket() < need {
		return nil, fmt.Errorf("plain: an MTU of %d makes packets of %d octets, the fabric takes %d: lower Config.MTU, or raise Options.MaxPacket",
			cfg.MTU, need, port.MaxPacket())
	}
	if err := card.Plug(port); err != nil {
		return nil, err
	}
	via := &virtual{Virtual: v, waiter: v.Waiter()}
	l, err := newLink(card, via, &cfg, card.String())
	if err != nil {
		return nil, err
	}
	via.Link = l
	l.info.Virtual = true
	card.OnInterrupt(func(uint32) { via.ring() })
	return via, nil
}

// virtual is a Link in virtual time.
type virtual struct {
	*Link
	Virtual
	waiter  Waiter
	waiting bool
	woken   bool
}

// Place implements transport.Parking.
func (v *virtual) Place() transport.Place { return place{v.Waiter()} }

type place struct{ w Waiter }

func (p place) Wait(until int64) { p.w.Wait(until) } // whoever gets its error gets it again from the next call
func (p place) Wake()            { p.w.Wake() }

func (v *virtual) drive() error { return nil } // events do
func (v *virtual) ready() bool  { return false }
func (v *virtual) now() int64   { return v.World.Now() }

func (v *virtual) wake() {
	v.woken = true
	v.ring()
}

// ring ends a wait, which then looks why.
func (v *virtual) ring() {
	if v.waiting {
		v.waiter.Wake()
	}
}

func (v *virtual) close() { v.ring() }

func (v *virtual) holds() bool { return false }
func (v *virtual) keeps() bool { return false }
func (v *virtual) lends() bool { return false }

func (v *virtual) snapshot() *myrinet.LivePort { return nil }

// wait pays what the host owes for access to the card, and waits.
func (v *virtual) wait(until int64) error {
	for paid := v.now() + v.card.TakeDebt(); v.now() < paid; {
		if err := v.block(paid); err != nil {
			return err
		}
	}
	if v.closed.Load() {
		return transport.ErrClosed
	}
	if !v.has() && !v.woken {
		v.counters.Waits.Add(1)
		asks := v.now() < until
		if asks {
			v.tell(wordAsks, 1)
		}
		for first := true; first || !v.over(until); first = false {
			if err := v.block(until); err != nil {
				return err
			}
		}
		if asks && !v.closed.Load() {
			v.tell(wordAsks, 0)
		}
	}
	v.woken = false
	if v.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// over reports whether there is no reason any more to wait.
func (v *virtual) over(until int64) bool {
	return v.has() || v.woken || v.closed.Load() || v.now() >= until
}

func (v *virtual) block(until int64) error {
	v.waiting = true
	err := v.waiter.Wait(until)
	v.waiting = false
	return err
}
