package lanai

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

// NewVirtual returns a new card in virtual time. plug makes the card's port, as Fabric.Host
// does. All that belongs to the card is for processes of the world.
func NewVirtual(v Virtual, plug func(h myrinet.Host) *myrinet.Port, cfg Config) (*Card, error) {
	if err := cfg.resolve(); err != nil {
		return nil, err
	}
	card, err := myrinet.NewCard(v.World, cfg.Card)
	if err != nil {
		return nil, err
	}
	port := plug(card)
	if need := myrinet.PacketSize(MaxHops, packetRoom); port.MaxPacket() < need {
		return nil, fmt.Errorf("lanai: packets have up to %d octets, the fabric takes %d: raise Options.MaxPacket", need, port.MaxPacket())
	}
	if err := card.Plug(port); err != nil {
		return nil, err
	}
	c := &Card{cfg: cfg, card: card}
	clock := &clock{Virtual: v, card: card, waiter: v.Waiter()}
	c.via = clock
	clock.deliver = c.driver.deliverNews
	return c, c.start(clock, idleMachine{c})
}

// clock is the carrier of a card in virtual time, and what its engine takes for a link: it
// carries no frames.
type clock struct {
	Virtual
	card    *myrinet.Card
	waiter  Waiter
	waiting bool
	woken   bool
	debt    int64 // that the host has not paid
	deliver func()
}

var _ transport.Parking = (*clock)(nil)

// idleMachine is driven by events.
type idleMachine struct{ *Card }

func (idleMachine) Poll(int64) bool  { return false }
func (idleMachine) Idle()            {}
func (idleMachine) NextTimer() int64 { return transport.Forever }
func (idleMachine) Woke(error)       {}

// Place implements transport.Parking.
func (c *clock) Place() transport.Place { return place{c.Waiter()} }

type place struct{ w Waiter }

func (p place) Wait(until int64) { p.w.Wait(until) } // whoever gets its error gets it again from the next call
func (p place) Wake()            { p.w.Wake() }

func (c *clock) holds() bool   { return false }
func (c *clock) now() int64    { return c.World.Now() }
func (c *clock) failed() error { return nil }
func (c *clock) close()        { c.Wake() }
func (c *clock) drive()        {} // events do

// owes returns how much of its time the host has spent and not paid.
func (c *clock) owes() int64 {
	c.debt += c.card.TakeDebt()
	return c.debt
}

// later has what the host does last be seen when it has done what it did before.
func (c *clock) later(fn func()) {
	if owes := c.owes(); owes > 0 {
		c.World.At(c.World.Now()+owes, fn)
		return
	}
	fn()
}

// news is for the time at which the step that the card is in has got so far.
func (c *clock) news() { c.World.At(c.card.Now(), c.deliver) }

// Wait implements transport.Link: it pays what the host owes, and waits.
func (c *clock) Wait(until int64) error {
	for paid := c.now() + c.owes(); c.now() < paid; {
		c.debt = paid - c.now()
		if err := c.block(paid); err != nil {
			return err
		}
		c.debt = 0
	}
	for first := true; !c.woken && (first || c.now() < until); first = false {
		if err := c.block(until); err != nil {
			return err
		}
	}
	c.woken = false
	return nil
}

func (c *clock) block(until int64) error {
	c.waiting = true
	err := c.waiter.Wait(until)
	c.waiting = false
	return err
}

// Wake implements transport.Link.
func (c *clock) Wake() {
	c.woken = true
	if c.waiting {
		c.waiter.Wake()
	}
}

// Now implements transport.Link.
func (c *clock) Now() int64 { return c.World.Now() }

// Info implements transport.Link.
func (c *clock) Info() transport.Info { return transport.Info{Driver: "myrinet", Virtual: true} }

// The rest of transport.Link carries frames, of which there are none.

// Send implements transport.Link.
func (c *clock) Send([]transport.Frame) (int, error) { return 0, transport.ErrClosed }

// Recv implements transport.Link.
func (c *clock) Recv([][]byte) (int, error) { return 0, transport.ErrClosed }

// Ready implements transport.Link.
func (c *clock) Ready() bool { return false }

// Stats implements transport.Link.
func (c *clock) Stats() transport.Stats { return transport.Stats{} }

// Close implements transport.Link.
func (c *clock) Close() error { return nil }
